//! The services of the gRPC surface: Envoy's rate limit service, health, reflection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use tonic::server::NamedService as _;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};
use tower::ServiceExt as _;
use wire::rls::rate_limit_service_server::RateLimitServiceServer;

use crate::config::Grpc;
use crate::rls::Rls;

/// Routes calls. The rate limit service is called as it is; all others go through tonic's router.
#[derive(Clone)]
pub struct Services {
    rls: RateLimitServiceServer<Rls>,
    others: Routes,
}

/// Tells the health of every service.
#[derive(Clone, Debug)]
pub struct Reporter(HealthReporter);

const RLS: &str = RateLimitServiceServer::<Rls>::NAME;
/// The empty name is the server as a whole.
const NAMES: [&str; 2] = ["", RLS];

impl Reporter {
    /// Tells whether the services take calls.
    pub async fn set(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in NAMES {
            self.0.set_service_status(name, status).await;
        }
    }

    /// Ends the calls of those who watch, which would otherwise never end.
    pub async fn end_watches(&mut self) {
        for name in NAMES {
            self.0.clear_service_status(name).await;
        }
    }
}

impl Services {
    /// Puts the services together; nothing is serving until the reporter says so.
    ///
    /// # Errors
    /// If the descriptors that the program was built with are broken.
    pub async fn new(
        rls: Rls,
        settings: &Grpc,
    ) -> Result<(Self, Reporter), tonic_reflection::server::Error> {
        let reporter = Reporter(HealthReporter::new());
        reporter.set(false).await;
        let health = HealthService::from_health_reporter(reporter.0.clone());
        let mut others = Routes::new(tonic_health::pb::health_server::HealthServer::new(health));
        if settings.reflection {
            let builder = || {
                tonic_reflection::server::Builder::configure()
                    .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
                    .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            };
            others = others
                .add_service(builder().build_v1()?)
                .add_service(builder().build_v1alpha()?);
        }
        let rls =
            RateLimitServiceServer::new(rls).max_decoding_message_size(settings.max_message_bytes);
        Ok((
            Self {
                rls,
                others: others.prepare(),
            },
            reporter,
        ))
    }
}

impl Service<Request<Incoming>> for Services {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let path = request.uri().path();
        if path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(RLS))
            .is_some()
        {
            tonic::codegen::Service::call(&mut self.rls.clone(), request)
        } else {
            Box::pin(
                self.others
                    .clone()
                    .oneshot(request.map(tonic::body::Body::new)),
            )
        }
    }
}

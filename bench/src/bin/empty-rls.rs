//! An Envoy rate limit service that does nothing: tonic as it comes, every request OK. The floor of what any service
//! on the same stack can reach, with Leasehold's allocator and runtime. Prints nothing, listens where it is told, until
//! it is killed.

use std::net::SocketAddr;

use tonic::transport::Server;
use tonic::{Request, Response, Status};
use wire::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use wire::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Empty;

#[tonic::async_trait]
impl RateLimitService for Empty {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let status = DescriptorStatus {
            code: Code::Ok.into(),
            ..Default::default()
        };
        let statuses = vec![status; request.get_ref().descriptors.len()];
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses,
            ..Default::default()
        }))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = std::env::args()
        .nth(1)
        .ok_or("usage: empty-rls ADDRESS:PORT")?
        .parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(
        Server::builder()
            .add_service(RateLimitServiceServer::new(Empty))
            .serve(address),
    )?;
    Ok(())
}

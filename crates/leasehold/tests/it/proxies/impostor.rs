//! Something that is not Leasehold answers on the port of the check, and says yes.
//!
//! It admits nothing: it is the absence of Leasehold. Not so behind nginx, whose `auth_request` knows only statuses,
//! and Envoy speaks gRPC, in which nothing else answers.

use http::StatusCode;

use super::assert_absence;
use crate::harness::client::Client;
use crate::harness::proxy::{Failing, Kind, Neighbours};
use crate::harness::upstream::Upstream;

async fn an_impostor_admits_nothing(kind: Kind, failing: Failing) {
    let api = Upstream::start().await;
    let impostor = Upstream::start().await;
    let to = Neighbours {
        check: impostor.port,
        rls: impostor.port,
        api: api.port,
    };
    let proxy = kind.start(failing, to).await;
    for status in [200, 201, 204, 302, 307] {
        let (before, asked) = (api.requests(), impostor.requests());
        let text = status.to_string();
        // The proxy hands it on with its question, so it is the impostor that answers so.
        let fields: &[(&str, &[u8])] = &[("x-answer-status", text.as_bytes())];
        let reply = Client::at(20)
            .get_with(proxy.port, "/limited", fields)
            .await;
        assert_eq!(impostor.requests() - asked, 1, "{kind:?} asked it");
        let reached = api.requests() - before;
        match failing {
            Failing::Closed => {
                assert_absence(&reply);
                assert_eq!(reached, 0, "{kind:?} {status}: it passed");
            }
            Failing::Open => {
                assert_eq!((reply.status.as_u16(), reached), (status, 1), "{kind:?}");
            }
        }
    }
    // What it refuses is refused, in its words, in both variants: else a refusal of the question would let it pass.
    let before = api.requests();
    let reply = Client::at(20)
        .get_with(proxy.port, "/limited", &[("x-answer-status", b"404")])
        .await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND, "{reply:?}");
    assert_eq!(api.requests(), before, "{kind:?}");
}

macro_rules! behind {
    ($($name:ident: $kind:expr;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                an_impostor_admits_nothing($kind, Failing::Closed).await;
                an_impostor_admits_nothing($kind, Failing::Open).await;
            }
        )+
    };
}

behind! {
    admits_nothing_behind_caddy: Kind::Caddy;
    admits_nothing_behind_haproxy: Kind::HaProxy;
}

//! Something that is not Leasehold answers on the port of the check, and says yes; or does not answer.
//!
//! It admits nothing: it is the absence of Leasehold. Not so behind nginx, whose `auth_request` knows only statuses,
//! and Envoy speaks gRPC, in which nothing else answers.

use http::StatusCode;

use super::assert_absence;
use crate::harness::client::Client;
use crate::harness::proxy::{Failing, Kind, Neighbours, Patience};
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

/// C19: who is slow has perhaps charged the request, and would charge it again. Nor is it waited for any longer.
async fn who_does_not_answer_is_asked_once(kind: Kind, failing: Failing) {
    let api = Upstream::start().await;
    let slow = Upstream::start().await;
    let to = Neighbours {
        check: slow.port,
        rls: slow.port,
        api: api.port,
    };
    let proxy = kind.start_edited(failing, Patience::Shipped, to, &[]).await;
    for _ in 0..5 {
        let asked = slow.requests();
        let reply = Client::at(21)
            .get_with(proxy.port, "/limited", &[("x-never-check", b"1")])
            .await;
        assert_eq!(slow.requests() - asked, 1, "{kind:?} {failing:?}");
        match failing {
            Failing::Closed => assert_absence(&reply),
            Failing::Open => assert_eq!(reply.status, StatusCode::OK, "{kind:?}: {reply:?}"),
        }
    }
}

macro_rules! behind {
    ($($name:ident: $check:ident($kind:expr);)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $check($kind, Failing::Closed).await;
                $check($kind, Failing::Open).await;
            }
        )+
    };
}

behind! {
    admits_nothing_behind_caddy: an_impostor_admits_nothing(Kind::Caddy);
    admits_nothing_behind_haproxy: an_impostor_admits_nothing(Kind::HaProxy);
    is_asked_once_by_nginx: who_does_not_answer_is_asked_once(Kind::Nginx);
    is_asked_once_by_caddy: who_does_not_answer_is_asked_once(Kind::Caddy);
    is_asked_once_by_haproxy: who_does_not_answer_is_asked_once(Kind::HaProxy);
}

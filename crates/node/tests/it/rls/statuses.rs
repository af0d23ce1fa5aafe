//! What is decided: codes, statuses and their order, charges.

use super::*;

/// A limit that fails closed refuses what it cannot count, with an answer: Envoy would admit on an error.
#[tokio::test]
async fn a_limit_that_cannot_count_and_fails_closed_is_over_limit() {
    let rules = (0..20).map(|n| {
        let mut limit = limit(1000, 86_400_000);
        limit.on_degraded = OnDegraded::FailClosed;
        rule(&format!("r{n}"), &format!("k{n}"), vec![limit])
    });
    let fixture = Fixture::with_table(&policy(rules.collect()), &[], 1).await;
    let channel = fixture.channel().await;
    let mut refused = 0;
    for n in 0..20 {
        for key in 0..20 {
            let message = RateLimitRequest {
                domain: "api".into(),
                descriptors: vec![
                    descriptor(&[(&format!("k{n}"), &key.to_string())]),
                    descriptor(&[("other", "x")]),
                ],
                hits_addend: 0,
            };
            let response = send(channel.clone(), message).await.unwrap();
            let (overall, statuses) = figures(&response);
            // No limit is used up: what is refused is for want of room, and the descriptor that met no limit is let be.
            assert_eq!(statuses[0].0, overall);
            assert_eq!(statuses[1].0, Code::Ok);
            if overall == Code::OverLimit {
                refused += 1;
                let body = String::from_utf8_lossy(&response.raw_body).into_owned();
                assert!(!body.contains("quota-exceeded"), "{body}");
            }
        }
    }
    let no_room = fixture.core.gate.table().stats(START).no_room;
    assert_eq!(refused, no_room);
    assert!(no_room > 0, "the table was never full");
    let text = fixture.core.telemetry.scrape(&TableStats::default());
    let series = crate::metrics::series(&text);
    let counted = series["throttle_requests_total{surface=\"rls\",verdict=\"unavailable\"}"];
    assert!((counted - refused as f64).abs() < 0.5, "{counted}");
}

#[tokio::test]
async fn statuses_come_in_the_order_of_the_descriptors() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let channel = fixture.channel().await;
    ask(channel.clone(), &["b"]).await.unwrap();
    let mut message = request(&["a", "b", "c"]);
    message.descriptors.insert(1, descriptor(&[("other", "x")]));
    let response = send(channel, message).await.unwrap();
    let (overall, statuses) = figures(&response);
    let (codes, remaining): (Vec<Code>, Vec<u32>) = statuses
        .iter()
        .map(|(code, remaining, _)| (*code, *remaining))
        .unzip();
    assert_eq!((overall, codes), (Code::Ok, vec![Code::Ok; 4]));
    assert_eq!(remaining, [1, 0, 0, 1]);
    assert_eq!(response.statuses[1].current_limit, None, "it met no limit");
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit(), &*limit.name),
        (2, Unit::Minute, "1m")
    );
}

#[tokio::test]
async fn over_the_limit_is_an_answer_and_charges_nobody() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let channel = fixture.channel().await;
    for _ in 0..2 {
        let response = ask(channel.clone(), &["a"]).await.unwrap();
        assert_eq!(response.overall_code(), Code::Ok);
    }
    for _ in 0..5 {
        let response = ask(channel.clone(), &["b", "a"]).await.unwrap();
        let (overall, statuses) = figures(&response);
        assert_eq!(overall, Code::OverLimit);
        assert_eq!(
            (statuses[0].0, statuses[0].1),
            (Code::Ok, 2),
            "b is not charged"
        );
        assert_eq!((statuses[1].0, statuses[1].1), (Code::OverLimit, 0));
        let body: serde_json::Value = serde_json::from_slice(&response.raw_body).unwrap();
        assert_eq!(body["status"], 429);
        assert_eq!(
            fields(&response)["content-type"],
            "application/problem+json"
        );
    }
}

#[tokio::test]
async fn waits_are_rounded_up_and_end_with_the_window() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let channel = fixture.channel().await;
    let first = ask(channel.clone(), &["a"]).await.unwrap();
    ask(channel.clone(), &["a"]).await.unwrap();
    // The window has the key's own phase: find its end from what the first answer says.
    let told = first.statuses[0].duration_until_reset.unwrap().seconds;
    assert!((1..=60).contains(&told), "{told}");
    fixture.hand.advance(Duration::from_millis(200));
    let mut waited = 200;
    loop {
        let response = ask(channel.clone(), &["a"]).await.unwrap();
        if response.overall_code() == Code::Ok {
            break;
        }
        let reset = response.statuses[0].duration_until_reset.unwrap().seconds;
        let retry: i64 = fields(&response)["retry-after"].parse().unwrap();
        assert!(
            reset >= 1 && retry >= 0,
            "the window is not over: {reset} {retry}"
        );
        assert!(
            waited + reset * 1000 >= (told - 1) * 1000,
            "{waited} {reset} {told}"
        );
        fixture.hand.advance(Duration::from_millis(200));
        waited += 200;
    }
    assert!(
        waited <= told * 1000 && waited > (told - 1) * 1000,
        "{waited} {told}"
    );
}

/// C6 over the wire.
#[tokio::test]
async fn hits_are_charged_looked_at_and_given_back() {
    let rules = vec![rule("per-user", "user", vec![limit(10, 60_000)])];
    let fixture = Fixture::with(&policy(rules), &[]).await;
    let channel = fixture.channel().await;
    // (request's hits, descriptor's hits, negative) and what is left then.
    let steps = [
        ((0, None, false), Code::Ok, 9),
        ((3, None, false), Code::Ok, 6),
        ((3, Some(1), false), Code::Ok, 5),
        ((3, Some(0), false), Code::Ok, 5),
        ((0, Some(6), false), Code::OverLimit, 5),
        ((0, Some(2), true), Code::Ok, 7),
        ((0, Some(100), true), Code::Ok, 10),
        ((0, Some(u64::MAX), false), Code::OverLimit, 10),
        ((0, Some(10), false), Code::Ok, 0),
        ((0, Some(0), false), Code::Ok, 0),
    ];
    for (step, ((of_request, of_descriptor, negative), code, left)) in steps.iter().enumerate() {
        let mut message = request(&["a"]);
        message.hits_addend = *of_request;
        message.descriptors[0].hits_addend = *of_descriptor;
        message.descriptors[0].is_negative_hits = *negative;
        let response = send(channel.clone(), message).await.unwrap();
        let (overall, statuses) = figures(&response);
        assert_eq!((overall, statuses[0].1), (*code, *left), "step {step}");
    }
}

#[tokio::test]
async fn limits_that_descriptors_bring_count_only_where_they_are_accepted() {
    let tree = Policy {
        domains: vec![DescriptorDomain {
            name: "api".into(),
            descriptors: vec![DescriptorNode {
                key: "user".into(),
                value: DescriptorValue::Any,
                share_threshold: false,
                limit: Some(DescriptorLimit {
                    rule: RuleName::new("api.user"),
                    limit: limit(2, 60_000),
                    mode: Mode::Enforce,
                    replaced_as: None,
                    replaces: Vec::new(),
                    quota_mode: false,
                }),
                descriptors: Vec::new(),
            }],
        }],
        ..Policy::default()
    };
    let mut message = request(&["a"]);
    message.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 100,
        unit: RateLimitUnit::Hour.into(),
    });

    let fixture = Fixture::with(&tree, &[]).await;
    let response = send(fixture.channel().await, message.clone())
        .await
        .unwrap();
    let limit = response.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Minute));

    let fixture = Fixture::with(&tree, &["grpc.accept_overrides=true"]).await;
    let channel = fixture.channel().await;
    let response = send(channel.clone(), message.clone()).await.unwrap();
    let limit = response.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (100, Unit::Hour));
    assert_eq!(response.statuses[0].limit_remaining, 99);

    message.descriptors[0]
        .limit
        .as_mut()
        .unwrap()
        .requests_per_unit = 0;
    let response = send(channel.clone(), message.clone()).await.unwrap();
    assert_eq!(
        response.overall_code(),
        Code::OverLimit,
        "an override of 0 denies all"
    );

    message.descriptors[0].limit.as_mut().unwrap().unit = 9;
    let refused = send(channel, message).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(
        refused.message().contains("descriptors[0].limit.unit is 9"),
        "{refused}"
    );
}

/// Files of envoyproxy/ratelimit's give limits names or none; none is made up for them.
#[tokio::test]
async fn limits_of_its_files_bear_the_names_that_they_have_there() {
    let text = "domain: api\ndescriptors:\n\
                - {key: named, rate_limit: {unit: hour, requests_per_unit: 5, name: quota}}\n\
                - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n";
    let file = File {
        name: "api.yaml",
        bytes: text.as_bytes(),
    };
    let tree = Policy {
        domains: read_files(&[file]).unwrap().domains,
        ..Policy::default()
    };
    let fixture = Fixture::with(&tree, &["grpc.accept_overrides=true"]).await;
    let mut message = request(&["a", "b"]);
    message.descriptors.push(descriptor(&[("named", "x")]));
    message.descriptors[1].limit = Some(RateLimitOverride {
        requests_per_unit: 100,
        unit: RateLimitUnit::Hour.into(),
    });
    let response = send(fixture.channel().await, message).await.unwrap();
    let names: Vec<&str> = response
        .statuses
        .iter()
        .map(|status| &*status.current_limit.as_ref().unwrap().name)
        .collect();
    assert_eq!(names, ["", "", "quota"]);
}

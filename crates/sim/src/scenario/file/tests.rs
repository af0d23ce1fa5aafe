//! What a scenario file may say, and how what it may not is refused.

use lease::config::Config;

use super::*;
use crate::net::Link;
use crate::traffic::Place;

const TRAFFIC: &str = "[[traffic]]\nlimits = [\"10/s\"]\nload = 1.5\nplace = \"pinned\"\n";

fn refusal(text: &str) -> String {
    read("s.toml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_is_not_said_is_the_setting_of_the_goals() {
    let scenario = read("s.toml", TRAFFIC.as_bytes()).unwrap();
    assert_eq!((scenario.nodes, scenario.seed), (20, 1));
    assert_eq!(scenario.link, Link::LAN);
    assert_eq!(scenario.config, Config::default());
    assert_eq!(scenario.traffic[0].limits[0].to_string(), "10/s");
}

#[test]
fn everything_can_be_said() {
    let text = r#"
        name = "all"
        nodes = 5
        seed = 7
        warm_up = "500ms"
        measured = "10s"
        [network]
        delay_us = [100, 300]
        slow_delay_us = 5000
        slow_percent = 1.5
        loss_percent = 2
        duplicated_percent = 0.5
        [protocol]
        round_ms = 50
        fast_path_deadline_us = 2000
        idle_pace = 1
        idle_rounds = 4
        issue_percent = 20
        lone_issue_percent = 30
        reserve_percent = 5
        degraded_after = "2s"
        [[traffic]]
        limits = ["10/s", "3 per 2s"]
        keys = 3
        requests_per_s = 100
        zipf = 1.2
        place = "connections"
        connections = 4
        cost = [1, 3]
        [[traffic]]
        limits = ["10/s"]
        load = 2
        burst_ms = 5
        place = "node"
        node = 4
        [[traffic]]
        limits = ["10/s"]
        load = 2
        crowd = { times = 5, from = "1s", for = "2s" }
        place = "moving"
        move_every = "3s"
        [[fault]]
        what = "down"
        node = 1
        at = "1s"
        for = "2s"
        [[fault]]
        what = "rolling"
        at = "0s"
        every = "1s"
        for = "500ms"
    "#
    .replace("3 per 2s", "3/2s");
    let scenario = read("s.toml", text.as_bytes()).unwrap();
    assert_eq!(scenario.traffic.len(), 3);
    assert_eq!(scenario.traffic[0].limits[1].to_string(), "3/2s");
    assert_eq!(scenario.traffic[1].place, Place::Node(4));
    assert_eq!(scenario.link.loss, 0.02);
    assert_eq!(scenario.healed_ns(), Some(4_500_000_000));
    assert_eq!(scenario.first_fault_ns(), Some(0));
}

#[test]
fn faults_name_their_field_and_what_would_be_right() {
    for (change, says) in [
        ("nodes = 0\n", "nodes is 0: it must be 1 to 300"),
        ("nodes = 100000\n", "nodes is 100000"),
        ("nodes = -1\n", "s.toml:1: nodes: "),
        ("node = 3\n", "unknown field `node`"),
        (
            "measured = \"1s\"\n",
            "measured is 1 s: it must be at least 2 s",
        ),
        (
            "measured = \"400d\"\n",
            "measured is 34560000 s: it must be at most",
        ),
        ("measured = \"soon\"\n", "s.toml:1: measured: "),
        (
            "network.loss_percent = 101\n",
            "network.loss_percent is 101",
        ),
        (
            "network.loss_percent = nan\n",
            "network.loss_percent is NaN",
        ),
        ("network.delay_us = [3, 2]\n", "network.delay_us is [3, 2]"),
        (
            "protocol.round_ms = 1\n",
            "protocol.round is 1: it must be 5 to",
        ),
        ("protocol.mutant = 1\n", "unknown field `mutant`"),
        ("nodes = 2\nnodes = 3\n", "s.toml:2: "),
    ] {
        let text = refusal(&format!("{change}{TRAFFIC}"));
        assert!(text.starts_with("s.toml:") && text.contains(says), "{text}");
    }
    for (more, says) in [
        ("keys = 0", "traffic[0].keys is 0: it must be 1 to 1000000"),
        ("keys = 1000001", "traffic[0].keys is 1000001"),
        ("cost = [0, 1]", "traffic[0].cost is 0"),
        ("cost = [3, 1]", "traffic[0].cost is 1: it must be 3 to"),
        (
            "burst_ms = 0",
            "traffic[0].burst_ms is 0: it must be 1 to 1000",
        ),
        ("node = 1", "traffic[0].node is given: it must be left out"),
        (
            "zipf = 1.0",
            "traffic[0].zipf is 1: it must be given together",
        ),
        ("requests_per_s = 5", "traffic[0].load is given"),
        (
            "keys = 1000000\nnodes = 1",
            "traffic[0].nodes: unknown field `nodes`",
        ),
        (
            "[[fault]]\nwhat = \"down\"\nat = \"1s\"",
            "fault[0].node is missing",
        ),
        (
            "[[fault]]\nwhat = \"down\"\nnode = 20\nat = \"1s\"",
            "fault[0].node is 20: it must be 0 to 19",
        ),
        (
            "[[fault]]\nwhat = \"bus_out\"\nat = \"1h\"",
            "fault[0].at is 3600000",
        ),
        (
            "[[fault]]\nwhat = \"fire\"\nat = \"1s\"",
            "fault[0].what: unknown variant",
        ),
        (
            "[[fault]]\nwhat = \"rolling\"\nat = \"1s\"\nevery = \"1s\"",
            "fault[0].for is missing",
        ),
    ] {
        let text = refusal(&format!("{TRAFFIC}{more}\n"));
        assert!(text.starts_with("s.toml:") && text.contains(says), "{text}");
    }
    let text = TRAFFIC.replace("1.5", "1e5").replace("10/s", "1000/s");
    assert!(
        refusal(&text).contains("requests: it must be at most"),
        "{}",
        refusal(&text)
    );
    for rate in ["deny", "unlimited", "0/s", "10/forever", "10", "x/s"] {
        let text = refusal(&TRAFFIC.replace("10/s", rate));
        assert!(text.contains("traffic[0].limits[0]: \""), "{text}");
    }
    for (bytes, says) in [
        (
            &b""[..],
            "traffic is missing: it must be at least one entry",
        ),
        (b"\xff", "is not UTF-8, from byte 0 on"),
        (b"= 3", "s.toml:1: "),
        (&[b'#'; MOST_BYTES + 1], "is larger than"),
    ] {
        let text = read("s.toml", bytes).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
}

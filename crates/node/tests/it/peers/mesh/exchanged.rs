//! Certificates and authorities that are exchanged while a mesh runs.

use super::*;

/// From one authority to another without a node restarting: first both are believed, then the certificates change,
/// then the old authority goes. All the while each node reaches the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_exchanged_under_load() {
    let tls = Tls::new();
    let (of_a, of_b) = (tls.credentials(A), tls.credentials(B));
    let ((_, mut a), (_, mut b)) = (tls.start(A, &of_a).await, tls.start(B, &of_b).await);
    a.reach(&mut b, b"at first").await;
    let (before, new) = (tls.authority.pem(), Authority::new());
    let both = before.clone() + &new.pem();
    let connects = a.peer(B).traffic.connects;
    for (ca, certificates) in [(&both, false), (&both, true), (&new.pem(), true)] {
        for (name, secure) in [(A, &of_a), (B, &of_b)] {
            let directory = tls.directory(name);
            std::fs::write(directory.join("ca.pem"), ca).unwrap();
            if certificates {
                write(&directory, ca, &new.issue(&[&uri(name)], NOW));
            }
            assert!(secure.credentials.reload(), "{name}");
            assert!(!secure.credentials.reload(), "nothing changed");
            for _ in 0..50 {
                a.reach(&mut b, b"under load").await;
                b.reach(&mut a, b"under load").await;
            }
        }
    }
    until(
        || a.peer(B).traffic.connects >= connects + 3,
        "new handshakes were made",
    )
    .await;
    // Who still has what was exchanged is refused.
    let issued = tls.issue(C);
    let stale = tls.credentials_of(C, &both, &issued).unwrap();
    let (_, c) = tls.start(C, &stale).await;
    is_refused(&c, &a).await;
}

fn counted(telemetry: &Telemetry) -> bool {
    let text = telemetry.scrape(&TableStats::default());
    text.lines()
        .any(|line| line.contains("peer_credentials") && line.ends_with(" 1"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_files_that_are_not_usable_leave_the_old_in_force() {
    let tls = Tls::new();
    let past = Valid {
        from_days: -10,
        until_days: -1,
    };
    let pem = tls.authority.pem();
    let other_key = tls.issue(A).key;
    let issued = |names: &[&str], valid| tls.authority.issue(names, valid);
    let (of_a, of_b, of_none) = (uri(A), uri(B), "leasehold://test");
    type Change<'a> = (&'a str, Box<dyn Fn(&std::path::Path) + 'a>);
    let changes: Vec<Change<'_>> = vec![
        (
            "ca.pem: cannot be read",
            Box::new(|at| std::fs::remove_file(at.join("ca.pem")).unwrap()),
        ),
        (
            "ca.pem: no certificate in PEM",
            Box::new(|at| std::fs::write(at.join("ca.pem"), "").unwrap()),
        ),
        (
            "cert.pem: no certificate",
            Box::new(|at| std::fs::write(at.join("cert.pem"), "\0\u{ff}").unwrap()),
        ),
        (
            "key.pem: no private key in PEM",
            Box::new(|at| std::fs::write(at.join("key.pem"), "x").unwrap()),
        ),
        (
            "key.pem: not the key of the certificate",
            Box::new(|at| std::fs::write(at.join("key.pem"), &other_key).unwrap()),
        ),
        (
            "cert.pem: peers would refuse this certificate",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_a], past)))),
        ),
        (
            "cert.pem: peers would refuse this certificate",
            Box::new(|at| drop(write(at, &pem, &Authority::new().issue(&[&of_a], NOW)))),
        ),
        (
            "cert.pem: the certificate is that of leasehold://test/node-b",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_b], NOW)))),
        ),
        (
            "cert.pem: the certificate names more than one node",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_a, &of_b], NOW)))),
        ),
        (
            "cert.pem: the certificate names no node",
            Box::new(|at| drop(write(at, &pem, &issued(&["https://a.example"], NOW)))),
        ),
        (
            "cert.pem: the certificate names \"leasehold://test\"",
            Box::new(|at| drop(write(at, &pem, &issued(&[of_none], NOW)))),
        ),
        (
            "bytes are too many",
            Box::new(|at| std::fs::write(at.join("ca.pem"), vec![b'x'; (1 << 20) + 1]).unwrap()),
        ),
    ];
    for (expected, change) in changes {
        let secure = tls.credentials(A);
        let directory = tls.directory(A);
        change(&directory);
        assert!(!secure.credentials.reload());
        assert!(!secure.credentials.reload(), "told once");
        assert!(
            counted(&secure.telemetry),
            "{}",
            secure.telemetry.scrape(&TableStats::default())
        );
        let (clock, _) = Clock::manual(START);
        let files = certificates::files(&directory);
        let me = identity(CLUSTER, A);
        let again = Credentials::read(files, me, clock, Arc::clone(&secure.telemetry));
        let told = again.unwrap_err().to_string();
        assert!(told.contains(expected), "{told}: expected {expected}");
        assert!(!told.contains("PRIVATE"), "{told}");
        // The old ones still make connections.
        let ((first, a), (second, mut b)) =
            (tls.start(A, &secure).await, tls.start_default(B).await);
        a.reach(&mut b, b"as ever").await;
        first.close();
        second.close();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_are_noticed() {
    let tls = Tls::new();
    let of_a = tls.credentials(A);
    let looking = tokio::spawn(Arc::clone(&of_a.credentials).keep_fresh(Duration::from_millis(10)));
    let ((_, a), (_, b)) = (tls.start(A, &of_a).await, tls.start_default(B).await);
    a.up(B).await;
    b.up(A).await;
    let connects = a.peer(B).traffic.connects;
    write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    until(
        || a.peer(B).traffic.connects > connects,
        "the new certificate is used",
    )
    .await;
    looking.abort();
}

/// A member of `node-b`, from a configuration alone, whose certificate changes on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_enough() {
    let tls = Tls::new();
    let files = write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    let members: Vec<String> = tls
        .places
        .members()
        .iter()
        .map(|member| format!("{}={}", member.name, member.address))
        .collect();
    let given = [
        format!("fleet.cluster={CLUSTER}"),
        format!("fleet.node={A}"),
        format!("fleet.members={}", members.join(",")),
        format!("peers.listen={}", tls.places.at(A)),
        format!("peers.tls.ca={}", files.ca.display()),
        format!("peers.tls.cert={}", files.cert.display()),
        format!("peers.tls.key={}", files.key.display()),
        "peers.tls.look_every_ms=100".to_owned(),
        "fleet.data_dir=data".to_owned(),
        "secret=file:secret".to_owned(),
    ];
    let config = leasehold_node::config::Loaded::read(None, [], &given)
        .unwrap()
        .config;
    let start = |config: &leasehold_node::config::Config| {
        let (deliver, inbox) = inbox(config.peers.bounds());
        let (clock, _) = Clock::manual(START);
        let telemetry = Arc::new(Telemetry::new(MOST_LIMITS, START));
        let chance = leasehold_node::peers::system_chance();
        let mesh = leasehold_node::peers::start_mesh(config, clock, telemetry, deliver, chance);
        mesh.map(|mesh| (mesh, inbox))
    };
    let (mesh, inbox) = start(&config).unwrap();
    let mut a = Station {
        name: NodeName::new(A).unwrap(),
        transport: Box::new(mesh.unwrap()),
        inbox,
    };
    let (_, mut b) = tls.start_default(B).await;
    a.reach(&mut b, b"from a file").await;
    b.reach(&mut a, b"to a file").await;
    let connects = a.peer(B).traffic.connects;
    write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    until(
        || a.peer(B).traffic.connects > connects,
        "the new certificate is used",
    )
    .await;

    let off = leasehold_node::config::Config::default();
    assert!(start(&off).unwrap().0.is_none());
    std::fs::write(&files.key, "none").unwrap();
    let told = start(&config).unwrap_err().to_string();
    assert!(
        told.starts_with("`peers.tls`: ") && told.contains("key.pem"),
        "{told}"
    );
}

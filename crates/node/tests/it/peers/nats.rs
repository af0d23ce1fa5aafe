//! Members by way of NATS, over a real server.

use bytes::Bytes;
use leasehold_node::config::Loaded;
use leasehold_node::peers::nats::{NatsPeers, NatsPeersSettings, subject};
use leasehold_node::peers::{
    Bounds, ClusterName, Deliver, Inbox, Link, Member, Transport, connect_nats, inbox, start_nats,
    system_chance,
};
use store::nats::{Credentials, NatsLink, NatsSettings, Secret};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Station;
use super::conformance::{self, BOUNDS, Harness};
use crate::nats_server::{NatsServer, now};
use crate::transports::{name, until};

const NAMES: [&str; 3] = ["node-1", "eu_west.node-2", "c"];

fn cluster() -> ClusterName {
    ClusterName::new("test.1").unwrap()
}

fn member(text: &str) -> Member {
    Member {
        name: name(text),
        address: String::new(),
    }
}

fn members() -> Vec<Member> {
    NAMES.into_iter().map(member).collect()
}

async fn link(server: &NatsServer, node: &str, credentials: Credentials) -> NatsLink {
    NatsLink::open(&NatsSettings {
        servers: vec![server.url()],
        name: node.to_owned(),
        credentials,
        tls: None,
        jitter: node.len() as u64,
    })
    .await
    .unwrap()
}

fn user(node: &str, password: &str) -> Credentials {
    Credentials::User {
        name: node.to_owned(),
        password: Secret::new(password.to_owned()),
    }
}

fn start(node: &str, link: NatsLink, deliver: Deliver) -> NatsPeers {
    let settings = NatsPeersSettings {
        cluster: cluster(),
        name: name(node),
        bounds: Bounds::default(),
    };
    NatsPeers::start(settings, link, deliver)
}

async fn node(server: &NatsServer, text: &str, credentials: Credentials) -> Station {
    let (deliver, inbox) = inbox(Bounds::default());
    let link = link(server, text, credentials).await;
    let transport = start(text, link, deliver);
    transport.set_members(&members());
    Station {
        name: name(text),
        transport: Box::new(transport),
        inbox,
    }
}

async fn nodes(server: &NatsServer) -> Vec<Station> {
    let mut nodes = Vec::new();
    for text in NAMES {
        nodes.push(node(server, text, Credentials::None).await);
    }
    nodes
}

/// Sends `text` until it arrives: transports may lose frames. What arrives must be from `from`.
async fn reaches(from: &Station, to: &mut Station, text: &'static str) {
    from.reach(to, text.as_bytes()).await;
}

/// A server of its own, started with the first node.
struct Nats(Option<NatsServer>);

impl Nats {
    async fn server(&mut self) -> &NatsServer {
        if self.0.is_none() {
            self.0 = Some(NatsServer::start("").await);
        }
        self.0.as_ref().unwrap()
    }
}

impl Harness for Nats {
    async fn start(&mut self, text: &str) -> Station {
        let (deliver, inbox) = inbox(BOUNDS);
        let link = link(self.server().await, text, Credentials::None).await;
        let settings = NatsPeersSettings {
            cluster: cluster(),
            name: name(text),
            bounds: BOUNDS,
        };
        let transport = NatsPeers::start(settings, link, deliver);
        let members: Vec<Member> = [conformance::A, conformance::B, conformance::C]
            .into_iter()
            .map(member)
            .collect();
        transport.set_members(&members);
        Station {
            name: name(text),
            transport: Box::new(transport),
            inbox,
        }
    }

    /// A client that subscribes to what the node would hear, and reads nothing of it.
    async fn stick(&mut self, text: &str) -> Box<dyn Send> {
        let port = self.server().await.port;
        let mut stuck = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let incoming = subject(&cluster(), &name("x"), &name(text)).replace(".from.x.", ".from.*.");
        let hello = format!("CONNECT {{\"verbose\":false}}\r\nSUB {incoming} 1\r\n");
        stuck.write_all(hello.as_bytes()).await.unwrap();
        Box::new(stuck)
    }
}

#[tokio::test]
async fn it_is_a_transport() {
    let server = NatsServer::start("").await;
    let nodes = nodes(&server)
        .await
        .into_iter()
        .map(
            |Station {
                 name,
                 transport,
                 inbox,
             }| crate::transports::Node {
                name,
                transport,
                inbox,
            },
        )
        .collect();
    crate::transports::suite(nodes, &members()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_every_transport_must() {
    conformance::all(|| Nats(None)).await;
}

/// X4: a node that starts before its server keeps trying, and says how it stands.
#[tokio::test]
async fn without_a_server_it_waits_and_keeps_the_newest() {
    let mut server = NatsServer::prepare("");
    let mut nodes = nodes(&server).await;
    let [one, other] = nodes.get_disjoint_mut([0, 1]).unwrap();
    for peer in one.transport.peers() {
        assert_eq!(peer.link, Link::Connecting);
    }
    let to = other.name.id();
    for number in 0..1_000 {
        let frame = Bytes::from(format!("{number}"));
        one.transport.send(to, frame).unwrap();
    }
    let dropped = one.transport.peers()[1].traffic.dropped_out;
    assert_eq!(one.transport.peers()[1].name.as_str(), "eu_west.node-2");
    assert_eq!(dropped, 1_000 - Bounds::default().frames as u64);
    server.up().await;
    reaches(one, other, "hello").await;
    until("the link to be up", || {
        let peers = one.transport.peers();
        peers.iter().all(|peer| peer.link == Link::Up).then_some(())
    })
    .await;

    server.kill();
    until("the link to be down", || {
        let peers = one.transport.peers();
        peers
            .iter()
            .all(|peer| peer.link == Link::Down)
            .then_some(())
    })
    .await;
    server.up().await;
    reaches(one, other, "again").await;
    reaches(other, one, "and back").await;
}

#[tokio::test]
async fn a_server_that_freezes_holds_nobody_up() {
    let server = NatsServer::start("").await;
    let mut nodes = nodes(&server).await;
    let [one, other] = nodes.get_disjoint_mut([0, 1]).unwrap();
    reaches(one, other, "before").await;
    server.freeze().await;
    let to = other.name.id();
    let started = now();
    // 400 MB: more than all buffers on the way hold.
    for _ in 0..4_000 {
        one.transport
            .send(to, Bytes::from_static(&[0; 100_000]))
            .unwrap();
        tokio::task::yield_now().await;
    }
    assert!(
        started.elapsed().as_secs() < 20,
        "no call waits for the server"
    );
    until("frames to be dropped", || {
        (one.transport.peers()[1].traffic.dropped_out > 0).then_some(())
    })
    .await;
    until("the silence to be noticed", || {
        (one.transport.peers()[1].link != Link::Up).then_some(())
    })
    .await;
    server.thaw();
    reaches(one, other, "after").await;
}

#[tokio::test]
async fn who_does_not_read_loses_its_own_oldest_and_stays_connected() {
    let server = NatsServer::start("").await;
    let mut nodes = nodes(&server).await;
    let [one, other] = nodes.get_disjoint_mut([0, 1]).unwrap();
    reaches(one, other, "before").await;
    let to = other.name.id();
    let before = one.transport.peers()[1].traffic.frames_out;
    until("the inbox to overflow", || {
        for _ in 0..100 {
            one.transport
                .send(to, Bytes::from_static(b"flood"))
                .unwrap();
        }
        let received = &other.transport.peers()[1].traffic;
        assert_eq!(other.transport.peers()[1].name, one.name);
        (received.dropped_in > 1_000).then_some(())
    })
    .await;
    assert!(one.transport.peers()[1].traffic.frames_out > before);
    reaches(one, other, "after").await;
    assert_eq!(other.transport.peers()[1].link, Link::Up);
}

fn permissions(password: impl Fn(&str) -> String) -> String {
    let users: Vec<String> = NAMES
        .iter()
        .map(|node| {
            let own = subject(&cluster(), &name(node), &name("x"));
            let publish = own.replace(".to.x", ".to.*");
            let other = subject(&cluster(), &name("x"), &name(node));
            let subscribe = other.replace(".from.x.", ".from.*.");
            format!(
                "{{ user: {node:?}, password: {:?}, permissions: {{ publish: [{publish:?}], \
                 subscribe: [{subscribe:?}] }} }}",
                password(node)
            )
        })
        .collect();
    format!("authorization {{ users: [{}] }}", users.join(", "))
}

/// The heart of it: with the permissions that the documentation gives, a node cannot speak as another, nor listen to
/// what is said to another. Without them it can, which shows that the test would notice.
#[tokio::test]
async fn no_node_speaks_as_another() {
    for protected in [true, false] {
        let mut server = NatsServer::prepare("");
        if protected {
            server.configure(&permissions(|node| format!("{node}'s")));
        }
        server.up().await;
        let as_user = |node: &str| match protected {
            true => user(node, &format!("{node}'s")),
            false => Credentials::None,
        };
        let mut fleet = Vec::new();
        for text in NAMES {
            fleet.push(node(&server, text, as_user(text)).await);
        }
        let [one, two, three] = fleet.get_disjoint_mut([0, 1, 2]).unwrap();
        reaches(one, three, "one to three").await;
        reaches(two, three, "two to three").await;

        // Node 1, with its own credentials and a client of its own, as node 2.
        let evil = link(&server, "evil", as_user(NAMES[0])).await;
        let forged = subject(&cluster(), &name(NAMES[1]), &name(NAMES[2]));
        let client = evil.client();
        let heard = client.subscribe(forged.clone()).await.unwrap();
        client.flush().await.unwrap();
        client
            .publish(forged.clone(), Bytes::from_static(b"forged"))
            .await
            .unwrap();
        client.flush().await.unwrap();
        // The server has dealt with it; what node 2 sends now arrives later.
        let to = three.name.id();
        let mut frames = Vec::new();
        until("a true frame", || {
            two.transport.send(to, Bytes::from_static(b"true")).unwrap();
            frames.extend(std::iter::from_fn(|| three.inbox.try_receive()));
            frames
                .iter()
                .any(|frame| frame.bytes[..] == *b"true")
                .then_some(())
        })
        .await;
        let forged_arrived = frames
            .iter()
            .any(|frame| frame.bytes[..] == *b"forged" && frame.from == two.name.id());
        if protected {
            until("the refusals to be told", || {
                let error = evil.state().last_error?;
                error
                    .to_lowercase()
                    .contains("permissions violation")
                    .then_some(())
            })
            .await;
            assert!(!forged_arrived);
        } else {
            assert!(forged_arrived);
        }
        drop(heard);
    }
}

#[tokio::test]
async fn a_stranger_in_the_cluster_is_counted_and_not_heard() {
    let server = NatsServer::start("").await;
    let (deliver, mut inbox): (Deliver, Inbox) = inbox(Bounds::default());
    let peers = start(
        "node-1",
        link(&server, "node-1", Credentials::None).await,
        deliver,
    );
    peers.set_members(&[member("node-1"), member("c")]);
    let other = link(&server, "other", Credentials::None).await;
    let client = other.client();
    let me = name("node-1");
    until("the stranger to be counted", || {
        for from in ["stranger", "node-1", "c.d"] {
            let subject = subject(&cluster(), &name(from), &me);
            let client = client.clone();
            tokio::spawn(async move { client.publish(subject, "hello".into()).await });
        }
        (peers.refused_strangers() > 5).then_some(())
    })
    .await;
    assert_eq!(inbox.try_receive(), None);
}

#[tokio::test]
async fn permissions_and_passwords_that_are_mended_at_the_server_need_no_restart() {
    let mut server = NatsServer::prepare("");
    server.configure(&permissions(|_| "old".to_owned()));
    server.up().await;
    let mut one = node(&server, NAMES[0], user(NAMES[0], "new")).await;
    let mut three = node(&server, NAMES[2], user(NAMES[2], "new")).await;
    until("the server to refuse", || {
        server.log().contains("authentication error").then_some(())
    })
    .await;
    assert_eq!(one.transport.peers()[0].link, Link::Connecting);
    server.kill();
    server.rewrite(&permissions(|_| "new".to_owned()));
    server.up().await;
    reaches(&one, &mut three, "hello").await;
    reaches(&three, &mut one, "hello").await;
}

#[tokio::test]
async fn a_configuration_is_enough() {
    let mut server = NatsServer::prepare("");
    server.configure(&permissions(|node| format!("{node}'s")));
    server.up().await;
    let mut stations = Vec::new();
    for text in [NAMES[0], NAMES[1]] {
        let password = server.folder().join(text);
        std::fs::write(&password, format!("{text}'s\n")).unwrap();
        let set = [
            format!("fleet.node={text}"),
            format!("fleet.cluster={}", cluster()),
            format!("fleet.members={}", NAMES.join(",")),
            "fleet.data_dir=data".to_owned(),
            "secret=file:secret".to_owned(),
            format!("nats.servers={}", server.url()),
            format!("nats.user={text}"),
            format!("nats.password_file={}", password.display()),
            "nats.plaintext=true".to_owned(),
        ];
        let config = Loaded::read(None, [], &set).unwrap().config;
        let link = connect_nats(&config, &system_chance())
            .await
            .unwrap()
            .unwrap();
        let (deliver, inbox) = inbox(config.peers.bounds());
        let transport = start_nats(&config, &link, deliver).unwrap();
        stations.push(Station {
            name: name(text),
            transport: Box::new(transport),
            inbox,
        });
    }
    let [one, other] = stations.get_disjoint_mut([0, 1]).unwrap();
    reaches(one, other, "hello").await;
    reaches(other, one, "hello").await;
    let off = Loaded::read(None, [], &[]).unwrap().config;
    assert!(
        connect_nats(&off, &system_chance())
            .await
            .unwrap()
            .is_none()
    );
}

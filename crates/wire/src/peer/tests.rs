use lease::bucket::{Bucket, Subject, WindowId};
use lease::id::{Epoch, Generation, LedgerId, NodeId, Seq, ViewId};
use lease::message::{Chunk, Given, Grant, GrantRecord, Pledge, Report, ReportRecord};
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use lease::time::Wall;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// A number, often an extreme one.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        0..1000_u64,
        any::<u64>()
    ]
    .boxed()
}

fn subject() -> BoxedStrategy<Subject> {
    prop_oneof![Just(0), Just(u128::MAX), Just(1 << 64), any::<u128>()]
        .prop_map(Subject)
        .boxed()
}

fn bucket() -> BoxedStrategy<Bucket> {
    (subject(), number().prop_map(WindowId))
        .prop_map(|(subject, window)| Bucket { subject, window })
        .boxed()
}

fn epoch() -> BoxedStrategy<Epoch> {
    (number(), number())
        .prop_map(|(count, nonce)| Epoch { count, nonce })
        .boxed()
}

fn chunk() -> BoxedStrategy<Chunk> {
    prop_oneof![Just(1), Just(u32::MAX), 1..10_u32]
        .prop_flat_map(|count| (0..count).prop_map(move |index| Chunk { index, count }))
        .boxed()
}

fn terms() -> BoxedStrategy<Terms> {
    let shape = prop_oneof![
        Just(Shape::FixedWindow),
        Just(Shape::SlidingWindow),
        number().prop_map(|burst| Shape::TokenBucket { burst })
    ];
    let on_degraded = prop_oneof![
        Just(OnDegraded::FairShare),
        Just(OnDegraded::FailOpen),
        Just(OnDegraded::FailClosed)
    ];
    (
        number(),
        prop_oneof![Just(LEAST_WINDOW_NS), Just(u64::MAX), LEAST_WINDOW_NS..],
        shape,
        any::<bool>(),
        on_degraded,
        prop_oneof![Just(Mode::Lease), Just(Mode::Fixed)],
        number(),
    )
        .prop_map(
            |(units, window_ns, shape, durable, on_degraded, mode, revision)| Terms {
                units,
                window_ns,
                shape,
                durable,
                on_degraded,
                mode,
                revision,
            },
        )
        .boxed()
}

fn given() -> BoxedStrategy<Given> {
    (number().prop_map(NodeId), epoch(), number())
        .prop_map(|(to, epoch, units)| Given { to, epoch, units })
        .boxed()
}

fn report_record() -> BoxedStrategy<ReportRecord> {
    let returned = (number().prop_map(LedgerId), number());
    (
        (bucket(), terms(), number().prop_map(Generation), number()),
        (vec(returned, 0..4), number(), vec(given(), 0..4)),
        (number(), number(), number(), number()),
    )
        .prop_map(
            |(
                (bucket, terms, generation, spent),
                (returned, self_granted, given),
                (demand, available, pending, quantum),
            )| ReportRecord {
                bucket,
                terms,
                generation,
                spent,
                returned,
                self_granted,
                given,
                demand,
                available,
                pending,
                quantum,
            },
        )
        .boxed()
}

fn pledge() -> BoxedStrategy<Pledge> {
    (number(), number())
        .prop_map(|(one, other)| Pledge {
            from: Wall(one.min(other)),
            until: Wall(one.max(other)),
        })
        .boxed()
}

fn report() -> BoxedStrategy<Report> {
    (
        (
            number().prop_map(Seq),
            chunk(),
            number().prop_map(Seq),
            option::of(epoch()),
        ),
        (
            option::of(pledge()),
            number().prop_map(Seq),
            any::<bool>(),
            vec(report_record(), 0..8),
        ),
    )
        .prop_map(
            |((seq, chunk, since, owner_epoch), (pledge, acked_grant, urgent, records))| Report {
                seq,
                chunk,
                since,
                owner_epoch,
                pledge,
                acked_grant,
                urgent,
                records,
            },
        )
        .boxed()
}

fn grant_record() -> BoxedStrategy<GrantRecord> {
    (
        (bucket(), number().prop_map(Generation), number()),
        (option::of(number()), any::<bool>(), number(), number()),
    )
        .prop_map(
            |(
                (bucket, generation, granted_total),
                (recall_to, exhausted, fleet_remaining, allowance),
            )| GrantRecord {
                bucket,
                generation,
                granted_total,
                recall_to,
                exhausted,
                fleet_remaining,
                allowance,
            },
        )
        .boxed()
}

fn grant() -> BoxedStrategy<Grant> {
    (
        (
            number().prop_map(Seq),
            chunk(),
            number().prop_map(Seq),
            epoch(),
        ),
        (number(), number(), number(), vec(grant_record(), 0..8)),
    )
        .prop_map(
            |((seq, chunk, since, holder_epoch), (ledger, from, acked, records))| Grant {
                seq,
                chunk,
                since,
                holder_epoch,
                ledger: LedgerId(ledger),
                authority_from: Wall(from),
                acked_report: Seq(acked),
                records,
            },
        )
        .boxed()
}

fn envelope() -> BoxedStrategy<Envelope> {
    (
        (number(), number(), number(), epoch(), number()),
        (option::of(report()), option::of(grant())),
    )
        .prop_map(
            |((view, from, to, epoch, sent_at), (report, grant))| Envelope {
                schema: SCHEMA,
                view: ViewId(view),
                from: NodeId(from),
                epoch,
                to: NodeId(to),
                sent_at: Wall(sent_at),
                report,
                grant,
            },
        )
        .boxed()
}

proptest! {
    #[test]
    fn what_is_written_is_read_the_same(envelope in envelope()) {
        let bytes = encode(&envelope).unwrap();
        prop_assert_eq!(decode(&bytes).unwrap(), envelope);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    /// One byte changed, or the end cut off: read as something that can be written again, or refused.
    #[test]
    fn damaged_bytes_are_read_or_refused(
        envelope in envelope(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = encode(&envelope).unwrap().to_vec();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        if let Ok(read) = decode(&bytes) {
            let again = encode(&read).unwrap();
            prop_assert_eq!(decode(&again).unwrap(), read);
        }
    }

    #[test]
    fn fields_of_a_later_build_are_passed_over(envelope in envelope(), value in any::<u64>()) {
        let mut bytes = encode(&envelope).unwrap().to_vec();
        prost::encoding::uint64::encode(1000, &value, &mut bytes);
        prost::encoding::string::encode(1001, &"later".to_owned(), &mut bytes);
        prop_assert_eq!(decode(&bytes).unwrap(), envelope);
    }
}

const EPOCH: Epoch = Epoch {
    count: 3,
    nonce: 0x0123_4567_89ab_cdef,
};

const PER_SECOND: Terms = Terms {
    units: 1000,
    window_ns: 1_000_000_000,
    shape: Shape::FixedWindow,
    durable: false,
    on_degraded: OnDegraded::FairShare,
    mode: Mode::Lease,
    revision: 7,
};

const WHOLE: Chunk = Chunk { index: 0, count: 1 };

/// A bucket as they are in operation: a hash, and a window of a second in 2026.
fn busy_bucket(number: u64) -> Bucket {
    let hash = u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Bucket {
        subject: Subject(hash),
        window: WindowId(60_000_000 + number),
    }
}

fn busy_record(number: u64) -> ReportRecord {
    ReportRecord {
        bucket: busy_bucket(number),
        terms: PER_SECOND,
        generation: Generation(1_000_000 + number),
        spent: 640,
        returned: vec![(LedgerId(0xfeed_0000_0000_0001), 120)],
        self_granted: 0,
        given: Vec::new(),
        demand: 25,
        available: 40,
        pending: 0,
        quantum: 1,
    }
}

fn busy_envelope(reported: u64, granted: u64) -> Envelope {
    let report = Report {
        seq: Seq(123_456),
        chunk: WHOLE,
        since: Seq(123_400),
        owner_epoch: Some(EPOCH),
        pledge: Some(Pledge {
            from: Wall(60_000_000_000_000_000),
            until: Wall(60_000_000_100_000_000),
        }),
        acked_grant: Seq(123_455),
        urgent: false,
        records: (0..reported).map(busy_record).collect(),
    };
    let record = |number| GrantRecord {
        bucket: busy_bucket(number),
        generation: Generation(1_000_000 + number),
        granted_total: 800,
        recall_to: None,
        exhausted: false,
        fleet_remaining: 200,
        allowance: 1000,
    };
    let grant = Grant {
        seq: Seq(123_457),
        chunk: WHOLE,
        since: Seq(123_400),
        holder_epoch: EPOCH,
        ledger: LedgerId(0xfeed_0000_0000_0001),
        authority_from: Wall(59_000_000_000_000_000),
        acked_report: Seq(123_456),
        records: (0..granted).map(record).collect(),
    };
    Envelope {
        schema: SCHEMA,
        view: ViewId(0xdead_beef_dead_beef),
        from: NodeId(0x1111_1111_1111_1111),
        epoch: EPOCH,
        to: NodeId(0x2222_2222_2222_2222),
        sent_at: Wall(60_000_000_000_000_000),
        report: Some(report),
        grant: Some(grant),
    }
}

/// The figures that the design rests on: bytes of an envelope without records, and of each record in operation.
#[test]
fn bytes_a_record() {
    let bytes = |reported, granted| encode(&busy_envelope(reported, granted)).unwrap().len();
    let most = MOST_RECORDS as u64;
    let idle = bytes(0, 0);
    let report = (bytes(most, 0) - idle) as f64 / most as f64;
    let grant = (bytes(0, most) - idle) as f64 / most as f64;
    let full = bytes(most, most);
    println!(
        "idle {idle} B, a report's record {report:.1} B, a grant's {grant:.1} B, full {full} B"
    );
    assert!(idle <= 170, "an idle pair sends {idle} bytes");
    assert!(report <= 50.0, "a report's record takes {report:.1} bytes");
    assert!(grant <= 40.0, "a grant's record takes {grant:.1} bytes");
    assert!(full <= 60_000, "a full envelope has {full} bytes");
}

#[test]
fn another_schema_is_refused_whole() {
    let with = |schema: u64| {
        let mut bytes = Vec::new();
        prost::encoding::uint64::encode(1, &schema, &mut bytes);
        // In another schema, what is a list here may be anything.
        bytes.extend_from_slice(&[7 << 3, 5, 8 << 3 | 5, 1, 2, 3, 4]);
        decode(&bytes)
    };
    let unknown = [
        0,
        u64::from(SCHEMA) + 1,
        1 << 16,
        (1 << 32) + u64::from(SCHEMA),
        u64::MAX,
    ];
    for schema in unknown {
        assert_eq!(with(schema), Err(DecodeError::UnknownSchema { schema }));
    }
    assert_eq!(decode(&[]), Err(DecodeError::UnknownSchema { schema: 0 }));
    // Said twice, and not understood once.
    let mut bytes = encode(&busy_envelope(1, 1)).unwrap().to_vec();
    prost::encoding::uint64::encode(1, &99, &mut bytes);
    assert_eq!(
        decode(&bytes),
        Err(DecodeError::UnknownSchema { schema: 99 })
    );
}

#[test]
fn what_a_receiver_would_refuse_for_its_length_is_not_written() {
    let too_many = |field, count, most| Err(EncodeError::TooMany { field, count, most });
    let over = MOST_RECORDS as u64 + 1;
    assert_eq!(
        encode(&busy_envelope(over, 0)),
        too_many("report.records", 513, 512)
    );
    assert_eq!(
        encode(&busy_envelope(0, over)),
        too_many("grant.records", 513, 512)
    );
    let changed = |change: fn(usize, &mut ReportRecord)| {
        let mut envelope = busy_envelope(MOST_RECORDS as u64, 0);
        let records = &mut envelope.report.as_mut().unwrap().records;
        records
            .iter_mut()
            .enumerate()
            .for_each(|(at, record)| change(at, record));
        encode(&envelope)
    };
    let given = Given {
        to: NodeId(u64::MAX),
        epoch: EPOCH,
        units: u64::MAX,
    };
    assert_eq!(
        changed(|_, record| record.returned = vec![(LedgerId(0), 1); MOST_PARTS + 1]),
        too_many("report.records[].returned", 65, 64)
    );
    assert_eq!(
        encode(&{
            let mut envelope = busy_envelope(1, 0);
            envelope.report.as_mut().unwrap().records[0].given = vec![given; MOST_PARTS + 1];
            envelope
        }),
        too_many("report.records[].given", 65, 64)
    );
    assert_eq!(
        changed(|at, record| {
            let ledger = |part| (LedgerId((at * 2 + part) as u64), 1);
            record.returned = vec![ledger(0), ledger(1)];
        }),
        too_many("report.ledgers", 1024, 512)
    );
    let mut envelope = busy_envelope(MOST_RECORDS as u64, 0);
    for record in &mut envelope.report.as_mut().unwrap().records {
        record.given = vec![given; MOST_PARTS];
    }
    assert!(
        matches!(encode(&envelope), Err(EncodeError::TooLarge { bytes }) if bytes > MOST_BYTES)
    );
    let most = busy_envelope(MOST_RECORDS as u64, MOST_RECORDS as u64);
    assert_eq!(decode(&encode(&most).unwrap()).unwrap(), most);
}

/// The message of an envelope that is right, changed, and read.
fn refusal(change: impl FnOnce(&mut v1::Envelope)) -> String {
    let mut message = write::envelope(&busy_envelope(2, 2)).unwrap();
    change(&mut message);
    decode(&message.encode_to_vec()).unwrap_err().to_string()
}

fn of_report(change: impl FnOnce(&mut v1::Report)) -> String {
    refusal(|message| change(message.report.as_mut().unwrap()))
}

#[test]
fn each_fault_names_its_field_and_what_would_be_right() {
    let told = [
        (refusal(|m| m.epoch = None), "epoch is absent"),
        (of_report(|r| r.chunk = None), "report.chunk is absent"),
        (
            of_report(|r| r.chunk = Some(v1::Chunk { index: 0, count: 0 })),
            "report.chunk.count is 0: expected 1 to 4294967295",
        ),
        (
            of_report(|r| r.chunk = Some(v1::Chunk { index: 3, count: 3 })),
            "report.chunk.index is 3: expected less than 3",
        ),
        (
            refusal(|m| {
                let chunk = v1::Chunk {
                    index: 0,
                    count: 1 << 32,
                };
                m.grant.as_mut().unwrap().chunk = Some(chunk);
            }),
            "grant.chunk.count is 4294967296: expected 1 to 4294967295",
        ),
        (
            of_report(|r| {
                r.pledge = Some(v1::Pledge {
                    from_ns: 5,
                    until_ns: 4,
                });
            }),
            "report.pledge.until_ns is 4: expected at least from_ns, 5",
        ),
        (
            of_report(|r| r.terms[0].window_ns = 99_999_999),
            "report.terms[0].window_ns is 99999999: expected at least 100000000",
        ),
        (
            of_report(|r| r.terms[0].shape = 4),
            "report.terms[0].shape is 4: expected 1 to 3",
        ),
        (
            of_report(|r| r.terms[0].on_degraded = 0),
            "report.terms[0].on_degraded is 0: expected 1 to 3",
        ),
        (
            of_report(|r| r.terms[0].mode = 9),
            "report.terms[0].mode is 9: expected 1 or 2",
        ),
        (
            of_report(|r| r.records[1].terms = 1),
            "report.records[1].terms is 1: expected less than the 1 terms of the report",
        ),
        (
            of_report(|r| r.records[1].returned[0].ledger = u64::MAX),
            "report.records[1].returned[0].ledger is 18446744073709551615: expected less than the 1 ledgers of the \
             report",
        ),
        (
            of_report(|r| r.records[0].given.push(v1::Given::default())),
            "report.records[0].given[0].epoch is absent",
        ),
        (
            refusal(|m| m.grant.as_mut().unwrap().holder_epoch = None),
            "grant.holder_epoch is absent",
        ),
        (
            of_report(|r| r.terms.resize(MOST_RECORDS + 1, r.terms[0])),
            "report.terms: 513 are too many, at most 512",
        ),
        (
            of_report(|r| r.ledgers.resize(MOST_LEDGERS + 1, 0)),
            "report.ledgers: 513 are too many, at most 512",
        ),
        (
            of_report(|r| {
                r.records[0]
                    .returned
                    .resize(MOST_PARTS + 1, v1::Returned::default())
            }),
            "report.records[].returned: 65 are too many, at most 64",
        ),
        (
            of_report(|r| {
                r.records[0]
                    .given
                    .resize(MOST_PARTS + 1, v1::Given::default())
            }),
            "report.records[].given: 65 are too many, at most 64",
        ),
    ];
    for (said, expected) in told {
        assert_eq!(said, expected);
    }
}

/// Records that take two bytes each are counted before room is made for them, however the lists are cut in parts.
#[test]
fn a_small_message_does_not_take_much_memory() {
    let mut start = Vec::new();
    prost::encoding::uint32::encode(1, &SCHEMA.into(), &mut start);
    for (envelope_field, list, name) in [
        (7_u8, 7_u8, "report.terms"),
        (7, 9, "report.records"),
        (8, 7, "grant.records"),
    ] {
        let mut bytes = start.clone();
        for _ in 0..=MOST_RECORDS {
            // A report or grant with one empty element; protobuf joins them.
            bytes.extend_from_slice(&[envelope_field << 3 | 2, 2, list << 3 | 2, 0]);
        }
        let expected = format!("{name}: 513 are too many, at most 512");
        assert_eq!(decode(&bytes).unwrap_err().to_string(), expected);
    }
    let bytes = MOST_BYTES + 1;
    assert_eq!(
        decode(&vec![0; bytes]),
        Err(DecodeError::TooLarge { bytes })
    );
}

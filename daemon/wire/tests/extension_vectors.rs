// SPDX-License-Identifier: Apache-2.0
//! The extension's messages against `protocol/vectors/extension-messages.txt`, which the JVM tests
//! read too. `LODESTONE_BLESS=1 cargo test -p lodestone-wire` rewrites the file after a deliberate
//! change.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod vectors;

use std::fmt::{Debug, Write};

use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, HeldData, LaidRun, LaidSegment, Ledger, Load,
    MapId, MapIndex, Mode, ReduceId, Segment, SegmentRun, ShuffleId, ShuffleKey, ShuffleSpec,
    State,
};
use lodestone_wire::Message;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};
use lodestone_wire::extension::explain::{
    ExplainApplication, Explanation, ReportApplication, ReportKept,
};
use lodestone_wire::extension::fetch::{
    FetchSegments, PartitionLayout, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};

const FILE: &str = "extension-messages.txt";

const HEAD: &str = "\
# Golden bytes of the extension (docs/protocol.md, section 4), read by the Rust and the JVM tests.
# Each vector is `Message.case hex`; the comment before it gives the fields.
";

/// The file as it should be, and the round trip of each message in it.
struct Book(String);

impl Book {
    fn add<M: Message + PartialEq + Debug>(&mut self, case: &str, fields: &str, message: M) {
        let bytes = message.to_bytes();
        assert_eq!(
            M::from_bytes(&bytes).unwrap(),
            message,
            "{}.{case}",
            M::NAME
        );
        let name = M::NAME;
        writeln!(self.0, "# {name} {fields}").unwrap();
        writeln!(self.0, "{name}.{case} {}", vectors::to_hex(&bytes)).unwrap();
    }
}

fn key() -> ShuffleAddress {
    ShuffleAddress {
        shuffle: ShuffleKey {
            app: AppId::new("app").unwrap(),
            attempt: Some(AppAttempt::NONE),
            shuffle: ShuffleId(5),
            generation: GenerationId(0),
        },
        incarnation: 0x0123_4567_89ab_cdef,
    }
}
const KEY: &str = "appId=app appAttempt=-1 incarnation=0x0123456789abcdef shuffleId=5 generation=0";

fn edge_key() -> ShuffleAddress {
    ShuffleAddress {
        shuffle: ShuffleKey {
            app: AppId::new("application_1_é").unwrap(),
            attempt: Some(AppAttempt(2)),
            shuffle: ShuffleId(i32::MAX),
            generation: GenerationId(i32::MAX),
        },
        incarnation: i64::MIN,
    }
}
const EDGE_KEY: &str = "appId=application_1_\u{e9} appAttempt=2 incarnation=0x8000000000000000 \
                        shuffleId=2147483647 generation=2147483647";

fn load() -> Load {
    Load {
        state: State::Serving,
        memory_used: 1,
        memory_limit: 2,
        disk_free: 3,
        disk_total: 4,
        connections: 5,
        shuffles: 6,
    }
}
const LOAD: &str = "load={state=0 memoryUsed=1 memoryLimit=2 diskFree=3 diskTotal=4 connections=5 \
                    shuffles=6}";

fn edge_load() -> Load {
    Load {
        state: State::DiskFailed,
        memory_used: i64::MAX as u64,
        memory_limit: i64::MAX as u64,
        disk_free: 0,
        disk_total: i64::MAX as u64,
        connections: i32::MAX as u32,
        shuffles: 0,
    }
}
const EDGE_LOAD: &str = "load={state=3 memoryUsed=9223372036854775807 \
                         memoryLimit=9223372036854775807 diskFree=0 \
                         diskTotal=9223372036854775807 connections=2147483647 shuffles=0}";

fn greetings(book: &mut Book) {
    let client_name = "lodestone-spark/0.1.0 spark/4.1.2";
    book.add(
        "plain",
        &format!("protocolVersion={PROTOCOL_VERSION} clientName='{client_name}'"),
        Hello {
            protocol_version: PROTOCOL_VERSION,
            client_name: client_name.into(),
        },
    );
    book.add(
        "other-version-no-name",
        "protocolVersion=-1 clientName=''",
        Hello {
            protocol_version: -1,
            client_name: String::new(),
        },
    );
    book.add(
        "plain",
        &format!(
            "protocolVersion={PROTOCOL_VERSION} serverVersion=0.1.0 \
             incarnation=0x0123456789abcdef {LOAD} zone=eu-west-1a"
        ),
        HelloReply {
            protocol_version: PROTOCOL_VERSION,
            server_version: "0.1.0".into(),
            incarnation: 0x0123_4567_89ab_cdef,
            load: load(),
            zone: "eu-west-1a".into(),
        },
    );
    book.add(
        "edges",
        &format!(
            "protocolVersion={PROTOCOL_VERSION} serverVersion='' incarnation=-1 {EDGE_LOAD} zone=''"
        ),
        HelloReply {
            protocol_version: PROTOCOL_VERSION,
            server_version: String::new(),
            incarnation: -1,
            load: edge_load(),
            zone: String::new(),
        },
    );
}

fn leases(book: &mut Book) {
    let app = key().shuffle.app;
    book.add(
        "plain",
        "appId=app appAttempt=-1 incarnation=0x0123456789abcdef ttlMs=60000",
        RenewLease {
            app: app.clone(),
            app_attempt: AppAttempt::NONE,
            incarnation: key().incarnation,
            ttl_ms: 60_000,
        },
    );
    book.add(
        "any-incarnation",
        "appId=app appAttempt=1 incarnation=0 ttlMs=9223372036854775807",
        RenewLease {
            app,
            app_attempt: AppAttempt(1),
            incarnation: 0,
            ttl_ms: i64::MAX,
        },
    );
    book.add(
        "one-driver",
        "appId=app~0123456789abcdef appAttempt=-1 incarnation=0x0123456789abcdef ttlMs=60000",
        RenewLease {
            app: AppId::new("app~0123456789abcdef").unwrap(),
            app_attempt: AppAttempt::NONE,
            incarnation: key().incarnation,
            ttl_ms: 60_000,
        },
    );
    book.add(
        "plain",
        &format!("incarnation=7 grantedTtlMs=60000 {LOAD}"),
        LeaseReply {
            incarnation: 7,
            granted_ttl_ms: 60_000,
            load: load(),
        },
    );
    let draining = Load {
        state: State::Draining,
        ..edge_load()
    };
    book.add(
        "draining",
        &format!(
            "incarnation=7 grantedTtlMs=10000 {}",
            EDGE_LOAD.replace("state=3", "state=1")
        ),
        LeaseReply {
            incarnation: 7,
            granted_ttl_ms: 10_000,
            load: draining,
        },
    );
}

fn registrations(book: &mut Book) {
    book.add(
        "plain",
        &format!("{KEY} mode=0 numMaps=1000 numPartitions=200 format=spark-stream"),
        RegisterShuffle {
            key: key(),
            spec: ShuffleSpec {
                mode: Mode::Merge,
                num_maps: 1000,
                num_partitions: 200,
                format: "spark-stream".into(),
            },
        },
    );
    book.add(
        "edges",
        &format!("{EDGE_KEY} mode=1 numMaps=2147483647 numPartitions=0 format=''"),
        RegisterShuffle {
            key: edge_key(),
            spec: ShuffleSpec {
                mode: Mode::Remote,
                num_maps: i32::MAX as u32,
                num_partitions: 0,
                format: String::new(),
            },
        },
    );
}

fn pushes(book: &mut Book) {
    let segment = |reduce_id, sequence, length, records, crc| Segment {
        reduce_id: ReduceId(reduce_id),
        sequence,
        length,
        records,
        crc32c: Crc32c(crc),
    };
    let batch = |key, (map_index, map_id), first_segment, is_whole, segments| PushBatch {
        key,
        map_index: MapIndex(map_index),
        map_id: MapId(map_id),
        first_segment,
        is_whole,
        segments,
    };
    let two = vec![segment(3, 1, 5, 2, 0x9a71_bb4c), segment(4, 6, 1, -1, 0)];
    book.add(
        "two-segments",
        &format!(
            "{KEY} mapIndex=7 mapId=42 firstSegment=100 isWhole=0 segments=[{{reduceId=3 sequence=1 \
             length=5 records=2 crc32c=0x9a71bb4c}},{{reduceId=4 sequence=6 length=1 records=-1 \
             crc32c=0x00000000}}]"
        ),
        batch(key(), (7, 42), 100, false, two),
    );
    let no_segments =
        format!("{KEY} mapIndex=0 mapId=-9223372036854775808 firstSegment=0 isWhole=1 segments=[]");
    book.add(
        "no-segments",
        &no_segments,
        batch(key(), (0, i64::MIN), 0, true, vec![]),
    );
    let max = i32::MAX as u32;
    book.add(
        "edges",
        &format!(
            "{EDGE_KEY} mapIndex=2147483647 mapId=9223372036854775807 \
             firstSegment=2147483647 isWhole=1 segments=[{{reduceId=2147483647 sequence=2147483647 \
             length=2147483647 records=2147483647 crc32c=0xffffffff}}]"
        ),
        batch(
            edge_key(),
            (max, i64::MAX),
            max,
            true,
            vec![segment(max, max, max, i32::MAX, u32::MAX)],
        ),
    );
    book.add(
        "three-codes",
        "incarnation=7 isCommitted=0 codes=[OK,DUPLICATE,ABORTED]",
        PushBatchReply {
            incarnation: 7,
            is_committed: false,
            codes: vec![Code::Ok, Code::Duplicate, Code::Aborted],
        },
    );
    let nothing = PushBatchReply {
        incarnation: -1,
        is_committed: true,
        codes: vec![],
    };
    book.add("no-codes", "incarnation=-1 isCommitted=1 codes=[]", nothing);
}

fn layouts(book: &mut Book) {
    let max = i32::MAX as u32;
    let ask = |key, map_start, map_end, reduce_ids: &[u32]| SegmentLayout {
        key,
        map_start,
        map_end,
        reduce_ids: reduce_ids.iter().copied().map(ReduceId).collect(),
    };
    let all_maps = format!("{KEY} mapStart=0 mapEnd=2147483647 reduceIds=[0,1,199]");
    book.add("all-maps", &all_maps, ask(key(), 0, max, &[0, 1, 199]));
    let no_partitions = format!("{EDGE_KEY} mapStart=10 mapEnd=20 reduceIds=[]");
    book.add(
        "no-partitions",
        &no_partitions,
        ask(edge_key(), 10, 20, &[]),
    );
    let laid = |map_index, map_id, sequence, length, records, crc| LaidSegment {
        map_index: MapIndex(map_index),
        map_id: MapId(map_id),
        sequence,
        length,
        records,
        crc32c: Crc32c(crc),
    };
    let first = LaidRun {
        first: 0,
        segments: vec![laid(7, 42, 0, 5, 2, 0x9a71_bb4c), laid(8, 43, 1, 1, -1, 0)],
    };
    let second = LaidRun {
        first: 9,
        segments: vec![laid(max, i64::MAX, max, max, i32::MAX, u32::MAX)],
    };
    let known = PartitionLayout {
        reduce_id: ReduceId(3),
        code: Code::Ok,
        runs: vec![first, second],
    };
    let unknown = PartitionLayout {
        reduce_id: ReduceId(4),
        code: Code::UnknownPartition,
        runs: vec![],
    };
    book.add(
        "known-and-unknown",
        "incarnation=7 format=encoded-rows-1 partitions=[{reduceId=3 code=OK runs=[{first=0 \
         segments=[{mapIndex=7 mapId=42 sequence=0 length=5 records=2 crc32c=0x9a71bb4c},{mapIndex=8 mapId=43 \
         sequence=1 length=1 records=-1 crc32c=0x00000000}]},{first=9 \
         segments=[{mapIndex=2147483647 mapId=9223372036854775807 sequence=2147483647 \
         length=2147483647 records=2147483647 crc32c=0xffffffff}]}]},{reduceId=4 \
         code=UNKNOWN_PARTITION runs=[]}]",
        SegmentLayoutReply {
            incarnation: 7,
            format: "encoded-rows-1".to_owned(),
            partitions: vec![known, unknown],
        },
    );
    book.add(
        "no-partitions",
        "incarnation=-1 format='' partitions=[]",
        SegmentLayoutReply {
            incarnation: -1,
            format: String::new(),
            partitions: vec![],
        },
    );
}

fn fetches(book: &mut Book) {
    let chunk = |reduce_id, runs: &[(u32, u32)]| WantedChunk {
        reduce_id: ReduceId(reduce_id),
        runs: runs
            .iter()
            .map(|&(first, count)| SegmentRun { first, count })
            .collect(),
    };
    book.add(
        "three-chunks",
        &format!(
            "{KEY} chunks=[{{reduceId=3 runs=[{{first=0 count=7}}]}},{{reduceId=3 \
             runs=[{{first=7 count=1}},{{first=9 count=2}}]}},{{reduceId=9 runs=[{{first=0 \
             count=1}}]}}]"
        ),
        FetchSegments {
            key: key(),
            chunks: vec![
                chunk(3, &[(0, 7)]),
                chunk(3, &[(7, 1), (9, 2)]),
                chunk(9, &[(0, 1)]),
            ],
        },
    );
    book.add(
        "edges",
        &format!(
            "{EDGE_KEY} chunks=[{{reduceId=2147483647 runs=[{{first=2147483647 \
             count=2147483647}}]}},{{reduceId=0 runs=[]}}]"
        ),
        FetchSegments {
            key: edge_key(),
            chunks: vec![
                chunk(i32::MAX as u32, &[(i32::MAX as u32, i32::MAX as u32)]),
                chunk(0, &[]),
            ],
        },
    );
    book.add(
        "no-chunks",
        &format!("{KEY} chunks=[]"),
        FetchSegments {
            key: key(),
            chunks: vec![],
        },
    );
}

fn commits(book: &mut Book) {
    book.add(
        "plain",
        &format!("{KEY} mapIndex=7 mapId=42 segments=200 checksum=0123456789abcdef"),
        CommitMap {
            key: key(),
            map_index: MapIndex(7),
            map_id: MapId(42),
            pushed: Ledger {
                segments: 200,
                checksum: 0x0123_4567_89ab_cdef,
            },
        },
    );
    book.add(
        "edges",
        &format!(
            "{EDGE_KEY} mapIndex=2147483647 mapId=-9223372036854775808 \
             segments=9223372036854775807 checksum=ffffffffffffffff"
        ),
        CommitMap {
            key: edge_key(),
            map_index: MapIndex(i32::MAX as u32),
            map_id: MapId(i64::MIN),
            pushed: Ledger {
                segments: i64::MAX as u64,
                checksum: u64::MAX,
            },
        },
    );
    book.add(
        "plain",
        &format!("{KEY} mapIndex=7 mapId=42"),
        AbortMap {
            key: key(),
            map_index: MapIndex(7),
            map_id: MapId(42),
        },
    );
}

fn ends(book: &mut Book) {
    book.add(
        "plain",
        "appId=app appAttempt=-1",
        EndApplication {
            app: key().shuffle.app,
            app_attempt: AppAttempt::NONE,
        },
    );
    book.add(
        "longest-name",
        "appId='a' x 256 appAttempt=2147483647",
        EndApplication {
            app: AppId::new(&"a".repeat(256)).unwrap(),
            app_attempt: AppAttempt(i32::MAX),
        },
    );
    book.add(
        "plain",
        "incarnation=0x0123456789abcdef",
        Done {
            incarnation: key().incarnation,
        },
    );
    book.add("negative", "incarnation=-1", Done { incarnation: -1 });
    book.add(
        "plain",
        "code=UNKNOWN_SHUFFLE incarnation=7 detail='shuffle 5 was never registered'",
        Refused {
            code: Code::UnknownShuffle,
            incarnation: 7,
            detail: "shuffle 5 was never registered".into(),
        },
    );
    book.add(
        "highest-code-no-detail",
        "code=INTERNAL incarnation=-1 detail=''",
        Refused {
            code: Code::Internal,
            incarnation: -1,
            detail: String::new(),
        },
    );
}

fn explanations(book: &mut Book) {
    let report = r#"{"totals":{"shuffles":1}}"#;
    book.add(
        "plain",
        r#"appId=app appAttempt=-1 ended=true report='{"totals":{"shuffles":1}}'"#,
        ReportApplication {
            app: key().shuffle.app,
            app_attempt: AppAttempt::NONE,
            ended: true,
            report: report.to_owned(),
        },
    );
    let of = |app: &str| ExplainApplication {
        app: app.to_owned(),
    };
    book.add("plain", "appId=app", of("app"));
    book.add("list", "appId=''", of(""));
    let kept = |app_attempt, ended, age_ms, report: &str| ReportKept {
        app: key().shuffle.app,
        app_attempt: AppAttempt(app_attempt),
        ended,
        age_ms,
        report: report.to_owned(),
    };
    book.add(
        "two-attempts",
        concat!(
            r#"incarnation=7 applications=[{appId=app appAttempt=1 ended=false age=1500 "#,
            r#"report='{"totals":{"shuffles":1}}'},"#,
            r#"{appId=app appAttempt=2 ended=true age=0 report='é'}]"#
        ),
        Explanation {
            incarnation: 7,
            applications: vec![kept(1, false, 1500, report), kept(2, true, 0, "é")],
        },
    );
    book.add(
        "nothing",
        "incarnation=-1 applications=[]",
        Explanation {
            incarnation: -1,
            applications: vec![],
        },
    );
}

fn drains(book: &mut Book) {
    for (case, wish) in [
        ("look", Wish::Look),
        ("begin", Wish::Begin),
        ("cancel", Wish::Cancel),
        ("leave", Wish::Leave),
    ] {
        book.add(case, &format!("wish={}", wish as u8), Drain { wish });
    }
    book.add(
        "plain",
        "incarnation=7 draining=true shuffles=1 applications=2 bytes=3 unwrittenBytes=4 \
         executors=5 leaseLeftMs=6",
        Holdings {
            incarnation: 7,
            held: HeldData {
                draining: true,
                shuffles: 1,
                applications: 2,
                bytes: 3,
                unwritten_bytes: 4,
                executors: 5,
                lease_left_ms: 6,
            },
        },
    );
    book.add(
        "edges",
        "incarnation=-1 draining=false shuffles=2147483647 applications=0 \
         bytes=9223372036854775807 unwrittenBytes=0 executors=2147483647 leaseLeftMs=0",
        Holdings {
            incarnation: -1,
            held: HeldData {
                draining: false,
                shuffles: i32::MAX as u32,
                applications: 0,
                bytes: i64::MAX as u64,
                unwritten_bytes: 0,
                executors: i32::MAX as u32,
                lease_left_ms: 0,
            },
        },
    );
}

#[test]
fn the_extension_has_exactly_the_golden_bytes() {
    let mut book = Book(HEAD.to_owned());
    greetings(&mut book);
    leases(&mut book);
    registrations(&mut book);
    pushes(&mut book);
    layouts(&mut book);
    fetches(&mut book);
    commits(&mut book);
    ends(&mut book);
    explanations(&mut book);
    drains(&mut book);
    if std::env::var_os("LODESTONE_BLESS").is_some() {
        std::fs::write(vectors::path(FILE), &book.0).unwrap();
    }
    let golden = std::fs::read_to_string(vectors::path(FILE)).unwrap();
    for (ours, theirs) in book.0.lines().zip(golden.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(book.0.lines().count(), golden.lines().count());
    assert_eq!(
        vectors::read(FILE).len(),
        golden.lines().count() / 2 - 1,
        "a name occurs twice"
    );
}

#[test]
fn bytes_after_the_last_field_are_refused() {
    for (name, bytes) in vectors::read(FILE) {
        let mut longer = bytes.clone();
        longer.push(0);
        let refused = match name.split('.').next().unwrap() {
            "Hello" => Hello::from_bytes(&longer).is_err(),
            "PushBatch" => PushBatch::from_bytes(&longer).is_err(),
            "SegmentLayoutReply" => SegmentLayoutReply::from_bytes(&longer).is_err(),
            "Done" => Done::from_bytes(&longer).is_err(),
            _ => continue,
        };
        assert!(refused, "{name}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Every request except `Hello`, with the application of another client, and without a proof: a
//! service with secrets refuses it, without an effect, whichever way its clients authenticate in.

mod application;
mod requests;

use std::collections::BTreeSet;

use bytes::Bytes;
use lodestone_auth::exchange::Version;
use lodestone_model::{AppId, Code};
use lodestone_wire::extension::drain::{Drain, Wish};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::frame::{ChunkId, StreamId};
use lodestone_wire::{Frame, Message, REQUESTS};
use tempfile::TempDir;

use self::application::Application;
use self::requests::{META, Sent, requests};
use crate::support::certified::Made;
use crate::support::client::{app, hello};
use crate::support::proof::{
    SECRET, answer, authenticated, authenticated_with_gcm, next, other, secrets, start, with_sasl,
};
use crate::support::{Client, Daemon};

/// What a request about another application is answered with.
const NOT_THEIRS: &str = "authenticated as";

const SECRET_OF_OTHER: &str = "another";

const BEGIN: Drain = Drain { wish: Wish::Begin };

/// How clients prove who they are, and encrypt.
#[derive(Debug, Clone, Copy)]
enum Way {
    Sasl,
    Counter(Version),
    Galois(Version),
    SaslInTls,
}

const WAYS: [Way; 6] = [
    Way::Sasl,
    Way::Counter(Version::One),
    Way::Counter(Version::Two),
    Way::Galois(Version::One),
    Way::Galois(Version::Two),
    Way::SaslInTls,
];

/// A service with the secrets of two applications.
struct Service {
    daemon: Daemon,
    way: Way,
    certificate: Made,
    _secrets: TempDir,
}

impl Service {
    fn start(way: Way) -> Self {
        let (secrets, certificate) = (secrets(), Made::new());
        let path = secrets.path().to_str().unwrap();
        let daemon = match way {
            Way::SaslInTls => certificate.start(&["--secrets", path, "--encrypted-only"]),
            _ => start(&secrets, &[]),
        };
        Self {
            daemon,
            way,
            certificate,
            _secrets: secrets,
        }
    }

    fn client_of(&self, app: &AppId, secret: &str) -> Client {
        let daemon = &self.daemon;
        let client = match self.way {
            Way::Sasl => with_sasl(Client::connect(daemon), app, secret),
            Way::Counter(version) => authenticated(daemon, app, secret, version),
            Way::Galois(version) => authenticated_with_gcm(daemon, app, secret, version),
            Way::SaslInTls => with_sasl(self.certificate.connect(daemon), app, secret),
        };
        client.unwrap()
    }

    /// An application with the id that Spark gives it, or with that of the plugin.
    fn ours(&self, id: &str) -> Application {
        let owner = self.client_of(&app(), SECRET);
        Application::new(&self.daemon, AppId::new(id).unwrap(), owner)
    }

    fn others(&self) -> Application {
        let owner = self.client_of(&other(), SECRET_OF_OTHER);
        Application::new(&self.daemon, other(), owner)
    }
}

/// The text of an answer that refuses, or nothing.
fn refusal(answer: Result<Bytes, String>) -> String {
    match answer {
        Err(text) => text,
        Ok(body) => Refused::from_bytes(&body).map_or_else(|_| String::new(), |one| one.detail),
    }
}

/// Returns after the daemon has handled a request without an answer: it handles the requests of a
/// connection in order.
fn settle(client: &mut Client) {
    let _: HelloReply = client.ask(&hello());
}

fn assert_others_stay_as_they_are(service: &Service) {
    let way = service.way;
    let mut others = service.others();
    let mut client = service.client_of(&app(), SECRET);
    let before = others.state();
    for Sent {
        name,
        frame,
        body,
        expected,
    } in requests(&others)
    {
        client.send(&frame);
        client.write(&body);
        match expected {
            Some(_) => {
                let refusal = refusal(next(&mut client));
                assert!(refusal.contains(NOT_THEIRS), "{way:?}: {name}: {refusal:?}");
            }
            None => settle(&mut client),
        }
        assert_eq!(others.state(), before, "{way:?}: after {name} of another");
    }
    let refusal = refusal(answer(&mut client, BEGIN.to_bytes()));
    assert!(refusal.contains("lodestone drain"), "{way:?}: {refusal:?}");
    assert_eq!(others.state(), before, "{way:?}: it takes new blocks");
    others.assert_whole();
}

fn assert_its_own_is_reached(service: &Service, id: &str) {
    let way = service.way;
    let mut ours = service.ours(id);
    let mut client = service.client_of(&app(), SECRET);
    for Sent {
        name,
        frame,
        body,
        expected,
    } in requests(&ours)
    {
        client.send(&frame);
        client.write(&body);
        if let Some(is_expected) = expected {
            let answer = next(&mut client);
            assert!(
                answer.as_ref().is_ok_and(|body| is_expected(body)),
                "{way:?}: {name} of its own {id}: {answer:?}"
            );
        } else {
            settle(&mut client);
            let code = ours.refusal_of(ours.address.clone());
            assert_eq!(code, Code::UnknownShuffle, "{way:?}: after {name}");
        }
    }
    // It was registered by one of the requests. The application's executor stays.
    let code = ours.refusal_of(ours.new_shuffle());
    assert_eq!(code, Code::UnknownShuffle, "{way:?}: {id} has ended");
}

#[test]
fn a_client_changes_nothing_of_another_application_with_any_request_and_sees_nothing_of_it() {
    for way in WAYS {
        assert_others_stay_as_they_are(&Service::start(way));
    }
}

#[test]
fn a_client_gets_the_answer_to_every_request_about_its_own_application() {
    for way in WAYS {
        let service = Service::start(way);
        for id in ["app-1", "app-1~0123456789abcdef"] {
            assert_its_own_is_reached(&service, id);
        }
    }
}

/// A message that is added to the list of requests has to be added here.
#[test]
fn each_request_is_tried() {
    let service = Service::start(Way::Sasl);
    let mut tried: BTreeSet<_> = requests(&service.ours("app-1"))
        .into_iter()
        .map(|sent| sent.name)
        .collect();
    assert!(tried.remove(META), "it is a frame");
    // They name no application.
    tried.extend([Hello::NAME, Drain::NAME]);
    assert_eq!(tried, REQUESTS.iter().copied().collect());
}

#[test]
fn chunks_of_a_stream_come_only_on_the_connection_that_opened_it() {
    let service = Service::start(Way::Counter(Version::One));
    let mut ours = service.ours("app-1");
    let (handle, _) = ours.owner.open_partition(&ours.address, 0, 1);
    let mut stranger = service.client_of(&other(), SECRET_OF_OTHER);
    for frame in chunk_of(handle.stream_id) {
        stranger.send(&frame);
        let answer = stranger.receive();
        assert!(
            matches!(
                answer,
                Some(Frame::ChunkFetchFailure(_) | Frame::StreamFailure(_))
            ),
            "{answer:?}"
        );
    }
    assert_eq!(ours.owner.take(&handle).concat(), b"merged");
}

/// Both ways to ask for the first chunk of a stream.
fn chunk_of(stream_id: i64) -> [Frame; 2] {
    let name = format!("{stream_id}_0");
    let chunk_index = 0;
    let chunk = ChunkId {
        stream_id,
        chunk_index,
    };
    [
        Frame::ChunkFetchRequest(chunk),
        Frame::StreamRequest(StreamId { name }),
    ]
}

/// Whether a client without a proof learns why it is not served. A kind of frame that is added has
/// its answer here.
fn learns_why(frame: &Frame) -> bool {
    match frame {
        Frame::RpcRequest { .. }
        | Frame::UploadStream { .. }
        | Frame::MergedBlockMetaRequest(_) => true,
        Frame::OneWay { .. } | Frame::ChunkFetchRequest(_) | Frame::StreamRequest(_) => false,
        Frame::ChunkFetchSuccess { .. }
        | Frame::ChunkFetchFailure(_)
        | Frame::RpcResponse { .. }
        | Frame::RpcFailure(_)
        | Frame::StreamResponse(_)
        | Frame::StreamFailure(_)
        | Frame::MergedBlockMetaSuccess { .. } => unreachable!("a service sends it"),
    }
}

#[test]
fn no_request_except_hello_is_carried_out_without_a_proof() {
    let service = Service::start(Way::Counter(Version::One));
    let mut ours = service.ours("app-1");
    let before = ours.state();
    let (handle, _) = ours.owner.open_partition(&ours.address, 0, 1);
    let mut all: Vec<_> = requests(&ours)
        .into_iter()
        .map(|sent| (sent.name, sent.frame))
        .collect();
    let (request_id, body) = (77, BEGIN.to_bytes());
    all.push((Drain::NAME, Frame::RpcRequest { request_id, body }));
    all.extend(chunk_of(handle.stream_id).map(|frame| ("a chunk", frame)));
    for (name, frame) in all {
        // On a connection of its own: one is all that it gets. The body of an upload would come to
        // one that is closed.
        let mut nobody = Client::connect(&service.daemon);
        settle(&mut nobody);
        nobody.send(&frame);
        if learns_why(&frame) {
            let error = next(&mut nobody).unwrap_err();
            let remedy = "set spark.authenticate=true";
            assert!(error.contains(remedy), "{name}: {error}");
        }
        assert_eq!(nobody.receive_to_the_end(), 0, "{name}: closed");
        assert_eq!(ours.state(), before, "after {name}");
    }
    assert_eq!(ours.owner.take(&handle).concat(), b"merged");
    ours.assert_whole();
}

// SPDX-License-Identifier: Apache-2.0
//! How refusals travel: with a code for messages of the extension, as a text or as the end of the
//! connection for Spark's own.

use lodestone_model::{Code, Refusal};
use lodestone_wire::Message;
use lodestone_wire::extension as ext;
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Refused;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::push::PushBlockStream;

use super::{Answer, Call, Upload};

/// Refuses a request for a stream.
pub fn without_stream(call: &Call, body: &[u8], refusal: &Refusal) -> Answer {
    match body.first() {
        Some(id) if is_extension(*id) => refuse(call, refusal),
        _ => close_or_fail(call, refusal),
    }
}

/// Refuses a request for whose answer there is no memory.
pub fn without_room(call: &Call, body: &[u8]) -> Answer {
    let refusal = Code::Overloaded.because("others hold the memory for answers: ask again");
    match body.first() {
        // The driver has other requests on its connection, and goes on without these statuses.
        Some(&FinalizeShuffleMerge::ID) => fail(call, &refusal),
        _ => without_stream(call, body, &refusal),
    }
}

/// Refuses an upload for whose body there is no memory.
pub fn upload_without_room(call: &Call, upload: &Upload) -> Answer {
    let detail = "others hold the memory for pushes: push again";
    upload_refused(call, upload, &Code::Overloaded.because(detail))
}

/// Refuses an upload whose disk hangs.
pub fn upload_to_a_disk_that_hangs(call: &Call, upload: &Upload) -> Answer {
    let detail = "the block was not merged: its disk hangs";
    upload_refused(call, upload, &Code::DiskFailed.because(detail))
}

fn upload_refused(call: &Call, upload: &Upload, refusal: &Refusal) -> Answer {
    let id = match upload {
        Upload::Batch(_) => PushBatch::ID,
        Upload::Block(_) => PushBlockStream::ID,
    };
    upload_refusal(call, id, refusal)
}

/// Refuses a request of Spark's that makes no sense.
pub fn malformed(call: &Call, detail: String) -> Answer {
    fail(call, &Code::Malformed.because(detail))
}

fn is_extension(id: u8) -> bool {
    (ext::FIRST_ID..=ext::LAST_ID).contains(&id)
}

/// Refuses a request of Spark's for blocks that are nowhere else. Spark ends a task whose request
/// is refused. If the connection breaks, Spark repeats the request three times, 5 s apart. (It
/// reads originals in place of merged chunks that are refused.)
fn close_or_fail(call: &Call, refusal: &Refusal) -> Answer {
    match refusal.code {
        Code::Overloaded => {
            count_refusal(call, refusal);
            Answer::Close
        }
        _ => fail(call, refusal),
    }
}

/// `id`: the message that announced the upload.
pub(super) fn upload_refusal(call: &Call, id: u8, refusal: &Refusal) -> Answer {
    call.service.metrics.push_refused_total.inc();
    match id {
        PushBatch::ID => refuse(call, refusal),
        _ => fail(call, refusal),
    }
}

pub(super) fn refuse(call: &Call, refusal: &Refusal) -> Answer {
    count_refusal(call, refusal);
    let incarnation = call.service.incarnation();
    Answer::Response(
        Refused {
            code: refusal.code,
            incarnation,
            detail: refusal.detail.clone(),
        }
        .to_bytes(),
    )
}

pub(super) fn fail(call: &Call, refusal: &Refusal) -> Answer {
    count_refusal(call, refusal);
    Answer::Failure(refusal.detail.clone())
}

pub(super) fn count_refusal(call: &Call, refusal: &Refusal) {
    call.service.metrics.count_refusal(refusal.code);
    let (connection, code) = (call.connection, refusal.code.name());
    tracing::debug!(connection, code, detail = refusal.detail, "request refused");
}

// SPDX-License-Identifier: Apache-2.0
//! What an error of a call says of the disk, and what of this process.

use std::io::{self, ErrorKind};

use lodestone_model::Code;
use lodestone_planted::{self as planted, Bug};
use rustix::io::Errno;

/// Returns the code with which a failed write is answered.
pub(crate) fn code_of(error: &io::Error) -> Code {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::DiskFull,
        // The last one: there is no thread for the call.
        ErrorKind::OutOfMemory | ErrorKind::ResourceBusy | ErrorKind::WouldBlock => {
            Code::Overloaded
        }
        _ if has_no_descriptor(error) && !planted::is(Bug::NoDescriptorTakenForBadDisk) => {
            Code::Overloaded
        }
        _ => Code::DiskFailed,
    }
}

/// True for too many open files: this process is at its limit, the disk is fine.
pub(super) fn has_no_descriptor(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

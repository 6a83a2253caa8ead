// SPDX-License-Identifier: Apache-2.0
//! Work in pieces, shared by threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Records of a piece, of one thread at a time: 64 MB, so that its start and its end cost almost
/// nothing.
pub(crate) const PIECE_RECORDS: u64 = 640_000;

/// Does the pieces, each once, in any order; returns their results in order. A failure ends its
/// thread.
pub(crate) fn divide<T: Send, E: Send>(
    threads: usize,
    pieces: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mine = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        mine.take_while(|piece| *piece < pieces)
            .map(|piece| Ok((piece, work(piece)?)))
            .collect::<Result<Vec<_>, E>>()
    };
    let ended = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|one| one.join());
        joined
            .map(|one| one.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Result<Vec<_>, E>>()
    });
    let mut done: Vec<_> = ended?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(piece, _)| *piece);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

#[cfg(test)]
mod tests {
    use super::divide;

    #[test]
    fn every_piece_is_done_once_and_returned_in_order() {
        let squares = divide(4, 1000, |piece| Ok::<_, ()>(piece * piece));
        assert_eq!(squares, Ok((0..1000).map(|piece| piece * piece).collect()));
        assert_eq!(divide(4, 0, |_| Err::<(), _>(())), Ok(vec![]));
    }

    #[test]
    fn a_piece_that_fails_makes_the_whole_fail() {
        let outcome = divide(
            3,
            100,
            |piece| if piece == 50 { Err(piece) } else { Ok(()) },
        );
        assert_eq!(outcome, Err(50));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Records in files: made, continued, and judged.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lodestone_sort::generate::{GenerateError, Job, generate};
use lodestone_sort::progress::Progress;
use lodestone_sort::random::Sequence;
use lodestone_sort::record::{Form, KEY_BYTES, RECORD_BYTES};
use lodestone_sort::validate::{Files, ValidateError, validate};

fn job(folder: &Path, records: u64, files: u32) -> Job {
    Job {
        form: Form::Binary,
        first: 0,
        records,
        files,
        folder: folder.to_path_buf(),
    }
}

fn made(job: &Job) -> u128 {
    made_by(3, job)
}

fn made_by(threads: usize, job: &Job) -> u128 {
    generate(job, threads, &Progress::of(job.bytes())).unwrap()
}

/// Returns the file that a run refuses to overwrite.
fn refused(job: &Job) -> PathBuf {
    match generate(job, 3, &Progress::of(job.bytes())) {
        Err(GenerateError::Foreign(path)) => path,
        other => panic!("not refused: {other:?}"),
    }
}

/// All bytes of a folder's parts.
fn bytes(folder: &Path) -> Vec<u8> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| fs::read(path).unwrap())
        .collect()
}

fn verdict(path: &Path) -> lodestone_sort::summary::Summary {
    let files = Files::of(&[path.to_path_buf()]).unwrap();
    validate(&files, 2, &Progress::of(files.bytes())).unwrap()
}

/// As `gensort -b0 1` and `gensort -a -b0 1` make it.
#[test]
fn the_first_records_are_those_that_everybody_knows() {
    let random = Sequence::from(0).next().unwrap();
    let binary = Form::Binary.record(random, 0);
    let mut expected = b"JimGrayRIP\x00\x11".to_vec();
    expected.extend(b"00000000000000000000000000000000\x88\x99\xAA\xBB");
    expected.extend(b"222200002222000022220000222200002222000000001111\xCC\xDD\xEE\xFF");
    assert_eq!(binary.to_vec(), expected);
    let ascii = Form::Ascii.record(random, 0);
    let text = "AsfAGHM5om  00000000000000000000000000000000  \
                0000222200002222000022220000222200002222000000001111\r\n";
    assert_eq!(str::from_utf8(&ascii).unwrap(), text);
}

#[test]
fn parts_in_a_row_are_the_records_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    let whole = made(&job(&one, 25_003, 1));
    assert_eq!(made(&job(&many, 25_003, 7)), whole);
    assert_eq!(fs::read_dir(&many).unwrap().count(), 7);
    assert_eq!(bytes(&one), bytes(&many));
    assert_eq!(bytes(&one).len(), 25_003 * RECORD_BYTES);

    let later = folder.path().join("later");
    made(&Job {
        first: 20_000,
        ..job(&later, 5_003, 2)
    });
    assert!(bytes(&one).ends_with(&bytes(&later)));
}

/// A million records are two pieces. The sum is known from gensort, and from Hadoop's TeraGen and
/// TeraValidate.
#[test]
fn one_file_by_several_threads_is_that_of_one_thread_and_has_the_published_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, together) = (folder.path().join("alone"), folder.path().join("together"));
    let published = 0x7_a27e_2d0d_55de;
    assert_eq!(made_by(1, &job(&alone, 1_000_000, 1)), published);
    assert_eq!(made_by(4, &job(&together, 1_000_000, 1)), published);
    assert!(bytes(&alone) == bytes(&together), "the files differ");
    let summary = verdict(&together);
    assert_eq!((summary.records, summary.checksum), (1_000_000, published));
}

/// Pieces of 640,000 records are made in any order: the piece that was written last may not be
/// behind the complete ones.
#[test]
fn nothing_behind_a_hole_that_an_interrupted_run_left_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let asked = job(&out, 700_000, 1);
    let checksum = made(&asked);
    let (whole, unfinished) = (out.join("part-00000"), out.join("part-00000.unfinished"));
    let before = fs::read(&whole).unwrap();
    let second_piece = 640_000 * RECORD_BYTES;
    let left: [&[(usize, usize)]; 4] = [
        // A piece that was cut in a record, and one behind it, cut as well.
        &[(0, 12_345_678), (second_piece, second_piece + 1_234_567)],
        // The second one alone.
        &[(second_piece, second_piece + 3_000_000)],
        // A file of the right length, with its last record.
        &[(0, 30_000_000), (30_000_100, before.len())],
        // All of it but the beginning and the name.
        &[(4096, before.len())],
    ];
    for written in left {
        fs::remove_file(&whole).unwrap();
        let file = File::create(&unfinished).unwrap();
        for (start, end) in written {
            file.write_all_at(&before[*start..*end], *start as u64)
                .unwrap();
        }
        assert_eq!(made(&asked), checksum, "{written:?}");
        assert!(fs::read(&whole).unwrap() == before, "{written:?}");
        assert!(!unfinished.exists());
    }
}

#[test]
fn an_interrupted_run_is_continued_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let asked = job(&out, 30_000, 3);
    let checksum = made(&asked);
    let before = bytes(&out);
    let cut = fs::read(out.join("part-00001")).unwrap();
    fs::remove_file(out.join("part-00001")).unwrap();
    // In the middle of a record.
    fs::write(out.join("part-00001.unfinished"), &cut[..512_345]).unwrap();
    fs::remove_file(out.join("part-00002")).unwrap();
    assert_eq!(made(&asked), checksum);
    assert_eq!(bytes(&out), before);
    assert_eq!(made(&asked), checksum, "nothing is left to do");
}

#[test]
fn files_of_another_run_are_neither_taken_nor_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    made(&job(&out, 1000, 2));
    let before = bytes(&out);
    let others = [
        job(&out, 2000, 2),
        job(&out, 999, 2),
        Job {
            first: 1,
            ..job(&out, 1000, 2)
        },
        Job {
            form: Form::Ascii,
            ..job(&out, 1000, 2)
        },
    ];
    for other in others {
        refused(&other);
    }
    assert_eq!(bytes(&out), before);

    // Nothing is begun beside it either.
    fs::remove_file(out.join("part-00000")).unwrap();
    assert_eq!(refused(&job(&out, 2000, 2)), out.join("part-00001"));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn bytes_of_another_run_are_not_overwritten_where_both_ends_are_ours() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let asked = job(&out, 30_000, 1);
    made(&asked);
    let unfinished = out.join("part-00000.unfinished");
    fs::rename(out.join("part-00000"), &unfinished).unwrap();
    let file = File::options().write(true).open(&unfinished).unwrap();
    let other = Form::Ascii.record(7, 15_000);
    file.write_all_at(&other, 15_000 * RECORD_BYTES as u64)
        .unwrap();
    let before = bytes(&out);
    assert_eq!(refused(&asked), unfinished);
    assert_eq!(bytes(&out), before);
}

#[test]
fn sorted_records_have_the_checksum_of_the_input_and_are_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    // More than one thread takes at a time.
    let checksum = made(&job(&input, 700_000, 2));
    let summary = verdict(&input);
    assert_eq!((summary.records, summary.checksum), (700_000, checksum));
    assert_eq!(summary.first_unordered, Some(2));
    assert!(!summary.is_in_order());

    let all = bytes(&input);
    let mut records: Vec<&[u8]> = all.chunks(RECORD_BYTES).collect();
    records.sort_by_key(|record| &record[..KEY_BYTES]);
    let output = folder.path().join("output");
    fs::create_dir(&output).unwrap();
    let (low, high) = records.split_at(123_456);
    fs::write(output.join("part-00000"), low.concat()).unwrap();
    fs::write(output.join("part-00001"), high.concat()).unwrap();
    fs::write(output.join("_SUCCESS"), "").unwrap();
    let sorted = verdict(&output);
    assert!(sorted.is_in_order(), "{sorted}");
    assert_eq!((sorted.records, sorted.checksum), (700_000, checksum));
    assert_eq!(sorted.duplicates, 0);
}

/// Counts like valsort: each record whose key is that of the one before it, in any file, whatever
/// follows.
#[test]
fn keys_that_are_there_twice_are_counted_over_the_ends_of_pieces_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let record = |key: u8, rest: u8| {
        let mut record = [rest; RECORD_BYTES];
        record[..KEY_BYTES].fill(key);
        record
    };
    // Two threads meet within these.
    let many = vec![record(1, 9); 640_002].concat();
    fs::write(folder.path().join("part-00000"), many).unwrap();
    let few = [record(1, 5), record(2, 5), record(3, 7), record(3, 6)];
    fs::write(folder.path().join("part-00001"), few.concat()).unwrap();
    fs::write(folder.path().join("part-00002"), record(3, 6)).unwrap();
    let summary = verdict(folder.path());
    assert_eq!(summary.records, 640_007);
    let text = "Duplicate keys: 640004\nSUCCESS - all records are in order";
    assert!(summary.to_string().ends_with(text), "{summary}");
}

#[test]
fn a_file_of_incomplete_records_gets_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut");
    fs::write(&cut, [0; 250]).unwrap();
    let refused = Files::of(std::slice::from_ref(&cut));
    assert!(matches!(
        refused,
        Err(ValidateError::Cut { bytes: 250, .. })
    ));
    let interrupted = folder.path().join("interrupted");
    fs::create_dir(&interrupted).unwrap();
    fs::write(interrupted.join("part-00000"), [0; 100]).unwrap();
    fs::write(interrupted.join("part-00001.unfinished"), [0; 100]).unwrap();
    assert!(matches!(
        Files::of(&[interrupted]),
        Err(ValidateError::Unfinished(_))
    ));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(
        Files::of(&[empty]),
        Err(ValidateError::NoParts(_))
    ));
    let missing = folder.path().join("missing");
    assert!(matches!(Files::of(&[missing]), Err(ValidateError::Disk(_))));
}

// SPDX-License-Identifier: Apache-2.0
//! Records in files: made, continued, and judged.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;

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
    generate(job, 3, &Progress::of(job.bytes())).unwrap()
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
        let refused = generate(&other, 1, &Progress::of(other.bytes()));
        assert!(
            matches!(refused, Err(GenerateError::Foreign(_))),
            "{refused:?}"
        );
    }
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

#[test]
fn what_holds_no_whole_records_gets_no_verdict() {
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

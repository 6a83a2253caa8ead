// SPDX-License-Identifier: Apache-2.0
//! The repository as the rules see it: every path that git knows, and the text of all text files.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::functions::end_of_item;
use crate::mask::{Kind, Language, kinds, only};

/// All files, by path below the root.
pub struct Repository {
    /// Text files, in the order of their paths.
    pub files: Vec<File>,
    paths: BTreeSet<String>,
}

/// One text file.
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// The text as it is.
    pub text: String,
    /// The parts of a source file.
    pub source: Option<Source>,
}

/// The parts of a source file. `code`, `comments` and `is_prose` have the text's lines.
pub struct Source {
    /// Its language.
    pub language: Language,
    /// The text with comments and literals blanked out.
    pub code: String,
    /// The text with everything but comments blanked out.
    pub comments: String,
    /// Lines that hold nothing but a comment, or a text over several lines.
    pub is_prose: Vec<bool>,
    /// Lines that are only compiled for tests.
    pub is_test: Vec<bool>,
}

impl Repository {
    /// Reads the checkout around `folder`: all files that git tracks, and those that it would track
    /// after `git add`.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let root = git(folder, &["rev-parse", "--show-toplevel"])?;
        let root = Path::new(root.trim_end());
        let listed = git(
            root,
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        )?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            match fs::read(root.join(path)) {
                Ok(bytes) => files.push((path.to_owned(), String::from_utf8(bytes).ok())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // deleted
                Err(error) => return Err(error),
            }
        }
        Ok(Self::of(files))
    }

    /// A repository of these paths and texts; `None` stands for a binary file.
    pub fn of(files: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let (mut paths, mut texts) = (BTreeSet::new(), Vec::new());
        for (path, text) in files {
            paths.insert(path.clone());
            if let Some(text) = text {
                let source = language_of(&path).map(|language| Source::new(&path, &text, language));
                texts.push(File { path, text, source });
            }
        }
        Self {
            files: texts,
            paths,
        }
    }

    /// Returns true if `path` is a file, or a folder that holds one.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        let next = self.paths.range(below.clone()..).next();
        path.is_empty() || self.paths.contains(path) || next.is_some_and(|p| p.starts_with(&below))
    }

    /// All paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// The text file with this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Source files, with their parts.
    pub fn sources(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.source.as_ref()?)))
    }
}

impl File {
    /// Returns true if the whole file is for tests.
    pub fn is_test(&self) -> bool {
        is_test_path(&self.path)
    }

    /// Returns true if the path ends in `.suffix`.
    pub fn has_extension(&self, suffix: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, end)| end == suffix)
    }
}

impl Source {
    fn new(path: &str, text: &str, language: Language) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let kinds = kinds(&chars, language);
        let code = only(&chars, &kinds, Kind::Code);
        let texts = only(&chars, &kinds, Kind::Text);
        let comments = only(&chars, &kinds, Kind::Comment);
        let is_prose = prose_lines(&code, &texts, &comments);
        let is_test = test_lines(path, &code);
        Self {
            language,
            code,
            comments,
            is_prose,
            is_test,
        }
    }

    /// Lines of code with their numbers (from 1) and whether they belong to a test.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let test = |at: usize| self.is_test.get(at).copied().unwrap_or(false);
        self.code
            .lines()
            .enumerate()
            .map(move |(at, line)| (at + 1, line, test(at)))
    }
}

/// A line is prose when no code stands in it, and what does is a comment or, in Python, a text that
/// takes whole lines.
fn prose_lines(code: &str, texts: &str, comments: &str) -> Vec<bool> {
    let has = |line: &str| !line.trim().is_empty();
    code.lines()
        .zip(texts.lines().zip(comments.lines()))
        .map(|(code, (text, comment))| !has(code) && (has(comment) || has(text)))
        .collect()
}

fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut is_test = vec![is_test_path(path); lines.len()];
    for (at, line) in lines.iter().enumerate() {
        if line.trim() == "#[cfg(test)]" && at + 1 < lines.len() {
            let end = end_of_item(&lines, at + 1);
            is_test[at..end].fill(true);
        }
    }
    is_test
}

fn is_test_path(path: &str) -> bool {
    let in_folder = |folder: &str| path.split('/').any(|part| part == folder);
    in_folder("tests")
        || path.contains("/src/test/")
        || path.contains("/src/harness/")
        || path.starts_with("e2e/harness/")
        || path.ends_with("/tests.rs")
}

fn language_of(path: &str) -> Option<Language> {
    match path.rsplit_once('.')?.1 {
        "rs" => Some(Language::Rust),
        "scala" => Some(Language::Scala),
        "java" => Some(Language::Java),
        "py" => Some(Language::Python),
        _ => None,
    }
}

fn git(folder: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

// SPDX-License-Identifier: Apache-2.0
//! Checks, and what they found.

use std::fmt::Write;

use serde_json::json;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Works, but not as well as it could, or not everywhere.
    Warning,
    /// Does not work.
    Error,
}

impl Level {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One check. `docs/doctor.md` has a table of them, and a test compares the two.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// Its name in the output.
    pub(super) name: &'static str,
    /// Its worst finding.
    pub(super) worst: Level,
    /// What it finds then.
    pub(super) when: &'static str,
    /// What to do then, unless a finding has a more exact answer.
    pub(super) remedy: &'static str,
}

impl Check {
    pub(super) fn ok(&'static self, found: impl Into<String>) -> Finding {
        self.at(Level::Ok, found)
    }

    pub(super) fn note(&'static self, found: impl Into<String>) -> Finding {
        self.at(Level::Note, found)
    }

    pub(super) fn warning(&'static self, found: impl Into<String>) -> Finding {
        self.at(Level::Warning, found)
    }

    pub(super) fn error(&'static self, found: impl Into<String>) -> Finding {
        self.at(Level::Error, found)
    }

    /// Returns a finding. It is no worse than the table says.
    pub(super) fn at(&'static self, level: Level, found: impl Into<String>) -> Finding {
        Finding {
            check: self,
            level: level.min(self.worst),
            found: found.into(),
            remedy: (level > Level::Ok).then(|| self.remedy.to_owned()),
        }
    }
}

/// Defines checks, and a list of all of them.
macro_rules! checks {
    ($list:ident: $($id:ident $name:literal $worst:ident $when:literal $remedy:literal)*) => {
        $(pub(super) static $id: $crate::operator::doctor::finding::Check =
            $crate::operator::doctor::finding::Check {
                name: $name,
                worst: $crate::operator::doctor::finding::Level::$worst,
                when: $when,
                remedy: $remedy,
            };)*

        /// All checks of this area, in the order of the table.
        #[cfg(test)]
        pub(in crate::operator::doctor) static $list:
            &[&$crate::operator::doctor::finding::Check] = &[$(&$id),*];
    };
}
pub(super) use checks;

/// What a check found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    check: &'static Check,
    pub(super) level: Level,
    found: String,
    /// What to do. None for what is as it should be.
    remedy: Option<String>,
}

impl Finding {
    /// Replaces the remedy of the table by one for this case.
    pub(super) fn instead(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn line(&self) -> String {
        let Self { check, level, .. } = self;
        let remedy = self.remedy.iter().map(|text| format!(" -> {text}"));
        format!(
            "{:<8} {}: {}{}\n",
            level.name(),
            check.name,
            self.found,
            remedy.collect::<String>()
        )
    }
}

/// The exit code of warnings.
const WARNED: u8 = 1;

/// The exit code of errors.
const FAILED: u8 = 2;

/// Returns the exit code of what was found.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|one| one.level).max() {
        Some(Level::Error) => FAILED,
        Some(Level::Warning) => WARNED,
        _ => 0,
    }
}

/// Returns a line for each finding, and one with the sums. A value may come from anywhere, and a
/// terminal obeys control characters.
pub(super) fn text(findings: &[Finding]) -> String {
    let lines = findings.iter().map(Finding::line);
    let mut text: String = lines
        .map(|line| {
            let clean = line.trim_end_matches('\n').replace(char::is_control, " ");
            format!("{clean}\n")
        })
        .collect();
    let counted = |level: Level| match count(findings, level) {
        1 => format!("1 {}", level.name()),
        count => format!("{count} {}s", level.name()),
    };
    let [errors, warnings, notes] = [Level::Error, Level::Warning, Level::Note].map(counted);
    let well = count(findings, Level::Ok);
    // A String takes everything.
    let _ = writeln!(text, "{errors}, {warnings}, {notes}, {well} ok");
    text
}

/// Returns one JSON object, with a line feed at its end.
pub(super) fn json(findings: &[Finding]) -> String {
    let each = |one: &Finding| {
        json!({
            "check": one.check.name,
            "level": one.level.name(),
            "found": one.found,
            "remedy": one.remedy,
        })
    };
    let all = json!({
        "errors": count(findings, Level::Error),
        "warnings": count(findings, Level::Warning),
        "findings": findings.iter().map(each).collect::<Vec<_>>(),
    });
    format!("{all}\n")
}

fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|one| one.level == level).count()
}

#[cfg(test)]
impl Finding {
    /// Returns what a test compares: the check, the level and all of the line.
    pub(super) fn shown(&self) -> (&'static str, &'static str, String) {
        (self.check.name, self.level.name(), self.line())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A breach of a rule.

use std::fmt;

/// One breach: where, which rule, and what to do about it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Breach {
    /// Path below the repository's root.
    pub path: String,
    /// Line, from 1; 0 when the breach concerns the whole file or folder.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// What the reader should do.
    pub advice: String,
}

impl Breach {
    /// A breach at a line (from 1).
    pub fn at(path: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            advice: advice.into(),
        }
    }

    /// A breach of a whole file or folder.
    pub fn of(path: &str, rule: &'static str, advice: impl Into<String>) -> Self {
        Self::at(path, 0, rule, advice)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            advice,
        } = self;
        write!(out, "{path}:{line}: {rule}: {advice}")
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `lodestone conf`: prints the keys of Spark that switch Lodestone on.

mod defaults;
mod form;
pub(super) mod jar;
pub(super) mod release;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::{ConfArgs, Form, Mode};
use jar::Jars;
use release::{Found, Release};

/// Keys of Spark and their values, in the order in which they are printed.
type Keys = Vec<(&'static str, String)>;

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// The version is not known.
    #[error(
        "--spark is missing, and {0}; give the version that `spark-submit --version` prints, as in \
         --spark 4.1.4"
    )]
    NoVersion(String),
    /// The version is no version.
    #[error("--spark {0}: this is no version of Spark; write it as in --spark 4.1.4")]
    NotAVersion(String),
    /// No jar is for this release.
    #[error(
        "Spark {0} is not supported: there are jars for Spark {supported}; use one of these releases, \
         or leave Lodestone out",
        supported = release::SUPPORTED
    )]
    Unsupported(String),
    /// Spark 4 has one Scala.
    #[error("Spark {0} exists for Scala 2.13 only; leave --scala out")]
    NoSuchScala(String),
    /// The jar is not there.
    #[error(
        "{name} is not in {folders}; copy it there, or name the jar with --jar PATH as executors find \
         it"
    )]
    NoJar {
        /// The name of its file.
        name: String,
        /// The folders, in words.
        folders: String,
    },
    /// The jar is another one.
    #[error("--jar {jar} is not for Spark {release}: use {name}")]
    OtherJar {
        /// The path.
        jar: String,
        /// The release of Spark.
        release: String,
        /// The name of the right one.
        name: String,
    },
    /// No class path can have the jar.
    #[error("the jar {0}: a class path separates its entries by colons; use a path without one")]
    Colon(String),
    /// The shell would cut the path in two.
    #[error(
        "the jar {0}: a shell cuts the options of $(lodestone conf) at blanks; use a path without \
         them, or --format properties"
    )]
    Blank(String),
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

/// What stands in place of the options after a failure. `spark-submit $(lodestone conf)` would run
/// without Lodestone if there were nothing; it refuses an option that it does not know.
const FAILED_OPTION: &[u8] = b"--conf lodestone-conf-failed\n";

/// Prints what `spark-submit` refuses, if these arguments ask for its options and are wrong.
pub fn refuse(arguments: &[OsString]) -> io::Result<()> {
    let is_conf = arguments.get(1).is_some_and(|verb| verb == "conf");
    let is_other = |word: &OsString| word == "properties" || word == "json";
    if is_conf && !arguments.iter().any(is_other) {
        io::stdout().write_all(FAILED_OPTION)?;
    }
    Ok(())
}

/// Prints the keys. Says on stderr whether tests cover this release of Spark, and names the user's
/// settings that the keys replace.
pub fn run(args: &ConfArgs) -> Result<(), ConfError> {
    let home = std::env::var_os("SPARK_HOME").map(PathBuf::from);
    let jars = Jars::of_program(std::env::current_exe().ok().as_deref());
    let printed = printed(args, home.as_deref(), &jars);
    if printed.is_err() && args.format == Form::Submit {
        io::stdout().write_all(FAILED_OPTION)?;
    }
    let (release, text) = printed?;
    io::stdout().write_all(text.as_bytes())?;
    let mut notes: Vec<String> = release.iter().filter_map(Release::note).collect();
    if args.format == Form::Submit {
        let folder = std::env::var_os("SPARK_CONF_DIR").filter(|folder| !folder.is_empty());
        let folder = folder.map(PathBuf::from);
        notes.extend(defaults::replaced(
            folder.or(home.map(|home| home.join("conf"))),
        ));
    }
    for note in notes {
        // Without stderr there is no way to say this.
        let _ = writeln!(io::stderr(), "lodestone: {note}");
    }
    Ok(())
}

/// Returns the release of Spark, if it is known, and the text for stdout. The Spark in `home`
/// counts unless `--spark` names another one. With the path of a jar no version is needed.
fn printed(
    args: &ConfArgs,
    home: Option<&Path>,
    jars: &Jars,
) -> Result<(Option<Release>, String), ConfError> {
    let found = match &args.spark {
        Some(version) => Ok(Found::named(version, home)),
        None => release::in_home(home),
    };
    let (release, jar) = match (found, &args.jar) {
        (Ok(found), named) => {
            let release = Release::of(&found, args.scala)?;
            let jar = match named {
                Some(jar) => jar::checked(jar, &release)?,
                None => jars.find(&release)?,
            };
            (Some(release), jar)
        }
        (Err(_), Some(jar)) => (None, jar.clone()),
        (Err(error), None) => return Err(error),
    };
    if jar.contains(':') {
        return Err(ConfError::Colon(jar));
    }
    Ok((release, form::text(args.format, &keys(&jar, args.mode))?))
}

fn keys(jar: &str, mode: Option<Mode>) -> Keys {
    let mut keys = vec![
        (
            "spark.shuffle.manager",
            "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager".to_owned(),
        ),
        (
            "spark.serializer",
            "org.apache.spark.serializer.KryoSerializer".to_owned(),
        ),
        ("spark.driver.extraClassPath", jar.to_owned()),
        ("spark.executor.extraClassPath", jar.to_owned()),
    ];
    let mode = mode.map(|mode| match mode {
        Mode::Auto => "auto",
        Mode::Merge => "merge",
        Mode::Remote => "remote",
    });
    keys.extend(mode.map(|mode| ("spark.lodestone.mode", mode.to_owned())));
    keys
}

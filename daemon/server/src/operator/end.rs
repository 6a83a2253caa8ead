// SPDX-License-Identifier: Apache-2.0
//! `lodestone end`: tells a service that an application has ended, and prints what came of it.

use std::io::{self, Write};
use std::time::Duration;

use lodestone_model::{AppAttempt, AppId, BadAppId};
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;

use super::ask::{AskError, Asking};
use crate::cli::EndArgs;

/// Far more than an answer takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the service does not know of the end.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// Spark gives no such ids.
    #[error("{app:?} is no application id: it {source}")]
    App {
        /// The id.
        app: String,
        /// What is wrong.
        source: BadAppId,
    },
    /// It is no error if the cluster says so of each application, and a mistake of a person.
    #[error("{service} holds nothing of {app}: it has ended there before, or has another id")]
    NothingKnown {
        /// The service.
        service: String,
        /// The id.
        app: String,
    },
    /// There is no service to tell.
    #[error(
        "{service}: {source}; name the service with --service HOST:PORT, and run this on its own \
         host, as the daemon's user or as root"
    )]
    Ask {
        /// The service.
        service: String,
        /// The error.
        source: AskError,
    },
}

impl EndError {
    /// Exit code. Wrong usage of the command line is 2, clap's.
    pub fn code(&self) -> u8 {
        match self {
            Self::NothingKnown { .. } => 3,
            _ => 1,
        }
    }
}

/// Tells it.
pub fn run(args: &EndArgs) -> Result<(), EndError> {
    let app = AppId::new(&args.app).map_err(|source| EndError::App {
        app: args.app.clone(),
        source,
    })?;
    let ended = EndApplication {
        app,
        // All attempts have.
        app_attempt: AppAttempt::NONE,
    };
    let asked = Asking::operator(&args.service, ANSWER_TIMEOUT);
    let service = args.service.clone();
    let _: Done =
        asked
            .and_then(|mut asking| asking.ask(&ended))
            .map_err(|source| match source {
                AskError::UnknownApplication => EndError::NothingKnown {
                    service: service.clone(),
                    app: args.app.clone(),
                },
                source => EndError::Ask {
                    service: service.clone(),
                    source,
                },
            })?;
    let dropped = format!("{service} has dropped all that it held of {}", args.app);
    // It has, whether anyone reads this or not.
    let _ = writeln!(io::stdout(), "{dropped}");
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0
//! `lodestone end`: tells a service that an application has ended.

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

/// Tells it. An application that is not known has ended already.
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
    let _: Done = asked
        .and_then(|mut asking| asking.ask(&ended))
        .map_err(|source| EndError::Ask {
            service: args.service.clone(),
            source,
        })?;
    Ok(())
}

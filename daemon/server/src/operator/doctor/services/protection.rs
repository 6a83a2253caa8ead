// SPDX-License-Identifier: Apache-2.0
//! Whether a service has the secret of the application.

use std::path::Path;

use lodestone_auth::Secret;
use lodestone_model::AppId;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation};

use super::checks::SECRET;
use super::{ANSWER_TIMEOUT, Clients};
use crate::operator::ask::{AskError, Asking};
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;
use crate::service::secrets::Secrets;

/// The application that this program is. A directory of secrets needs `default` for it.
const APP: &str = "lodestone-doctor";

pub(super) fn all(name: &str, address: &str, clients: &Clients<'_>) -> Option<Finding> {
    let asks = match question(address) {
        Ok(()) => None,
        Err(AskError::Refused(text)) => Some(text),
        // The greeting says what is wrong with the network.
        Err(_) => return None,
    };
    let authenticates = clients
        .settings
        .map(|settings| settings.is_true("spark.authenticate", false));
    let has_tls = clients.settings.is_some_and(super::tls::is_on);
    match (asks, authenticates.unwrap_or(clients.secrets.is_some())) {
        (None, true) => Some(
            SECRET
                .error(format!(
                    "{name} has no secrets, and the application authenticates: the plugin does not \
                     use it (NO_SERVICE)"
                ))
                .instead("Start the daemon with --secrets and the secret of the application."),
        ),
        (None, false) => Some(SECRET.ok(format!("{name} asks for no secret"))),
        (Some(_), true) => Some(proof(name, address, clients)),
        // A client with TLS is not asked for more.
        (Some(_), false) if has_tls => None,
        (Some(text), false) if clients.settings.is_none() => Some(
            SECRET
                .note(format!("{name} refuses clients like this one: {text}"))
                .instead("Name the settings of the application with --conf to check them too."),
        ),
        (Some(text), false) => Some(
            SECRET
                .error(format!("{name} refuses the application: {text}"))
                .instead("Set what the service asks for, as its answer says."),
        ),
    }
}

/// Asks for something that only a client may know that the service trusts.
fn question(address: &str) -> Result<(), AskError> {
    let app = APP.to_owned();
    Asking::connect(address, ANSWER_TIMEOUT)?
        .ask::<Explanation>(&ExplainApplication { app })
        .map(drop)
}

fn proof(name: &str, address: &str, clients: &Clients<'_>) -> Finding {
    let secret = match secret(clients) {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return SECRET
                .note(format!(
                    "{name} asks for a secret, and the settings have none: it is not compared"
                ))
                .instead("Name the file with the application's secret with --secrets.");
        }
        Err(problem) => return SECRET.error(problem),
    };
    match authenticated(address, &secret) {
        Ok(()) => SECRET.ok(format!("{name} has the secret of the application")),
        Err(error) => SECRET.error(format!(
            "{name} has another secret, or none for applications without a file of their own: \
             {error}"
        )),
    }
}

fn authenticated(address: &str, secret: &Secret) -> Result<(), AskError> {
    let app = AppId::new(APP).map_err(|bad| AskError::Refused(bad.to_string()))?;
    let mut asking = Asking::connect(address, ANSWER_TIMEOUT)?;
    asking.authenticate(&app, secret)?;
    let app = APP.to_owned();
    asking
        .ask::<Explanation>(&ExplainApplication { app })
        .map(drop)
}

/// Returns the secret from `--secrets`, or from the settings.
fn secret(clients: &Clients<'_>) -> Result<Option<Secret>, String> {
    if let Some(path) = &clients.secrets {
        return of_file(path);
    }
    let text = clients.settings.and_then(of_settings);
    text.map(|text| Secret::new(&text).map_err(|bad| format!("the secret of the settings: {bad}")))
        .transpose()
}

fn of_file(path: &Path) -> Result<Option<Secret>, String> {
    let app = AppId::new(APP).map_err(|bad| bad.to_string())?;
    let read = Secrets::at(path).and_then(|secrets| secrets.of(&app));
    read.map_err(|error| error.to_string())
}

/// An event log has another text in place of the secret.
fn of_settings(settings: &Settings) -> Option<Vec<u8>> {
    let given = settings.get("spark.authenticate.secret");
    let given = given.filter(|text| !text.contains("(redacted)"));
    given.map(|text| text.as_bytes().to_vec())
}

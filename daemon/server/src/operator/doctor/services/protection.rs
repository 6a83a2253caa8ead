// SPDX-License-Identifier: Apache-2.0
//! Whether a service has the secret of the application.

use std::path::Path;

use lodestone_auth::Secret;
use lodestone_model::AppId;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation};

use super::checks::{ENCRYPTION, SECRET};
use super::{ANSWER_TIMEOUT, Clients};
use crate::operator::ask::{AskError, Asking};
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;
use crate::service::secrets::Secrets;

/// The application that this program is. A directory of secrets needs `default` for it.
const APP: &str = "lodestone-doctor";

pub(super) fn all(name: &str, address: &str, clients: &Clients<'_>) -> Vec<Finding> {
    let settings = clients.settings;
    let authenticates = settings.map(|settings| settings.is_true("spark.authenticate", false));
    if !authenticates.unwrap_or(clients.secrets.is_some()) {
        return unproved(name, address, clients).into_iter().collect();
    }
    let (proved, has_secrets) = proof(name, address, clients);
    let mut found = vec![proved];
    let has_cipher = |settings: &Settings| {
        settings.has_tls() || settings.is_true("spark.network.crypto.enabled", false)
    };
    if has_secrets && settings.is_some_and(|settings| !has_cipher(settings)) {
        found.extend(in_the_clear(name, address));
    }
    found
}

/// Compares a service with an application that does not authenticate.
fn unproved(name: &str, address: &str, clients: &Clients<'_>) -> Option<Finding> {
    let has_tls = clients.settings.is_some_and(Settings::has_tls);
    match question(address) {
        Ok(()) => Some(SECRET.ok(format!("{name} asks for no secret"))),
        // A client with TLS is not asked for more.
        Err(AskError::Refused(_)) if has_tls => None,
        Err(AskError::Refused(text)) if clients.settings.is_none() => Some(
            SECRET
                .note(format!("{name} refuses clients like this one: {text}"))
                .instead("Name the settings of the application with --conf to check them too."),
        ),
        Err(AskError::Refused(text)) => Some(
            SECRET
                .error(format!("{name} refuses the application: {text}"))
                .instead("Set what the service asks for, as its answer says."),
        ),
        // The greeting says what is wrong with the network.
        Err(_) => None,
    }
}

/// Whether the service lets a client prove its secret with SASL, as the plugin does then.
fn in_the_clear(name: &str, address: &str) -> Option<Finding> {
    let app = AppId::new(APP).ok()?;
    let mut asking = Asking::connect_for(address, ANSWER_TIMEOUT).ok()?;
    match asking.begin_in_the_clear(&app) {
        Err(AskError::Refused(text)) => Some(ENCRYPTION.error(format!(
            "{name} refuses an application without encryption, so the plugin does not use it \
             (NO_SERVICE): {text}"
        ))),
        Ok(()) => Some(ENCRYPTION.ok(format!(
            "{name} lets clients authenticate without encryption"
        ))),
        Err(_) => None,
    }
}

/// Asks for something that only a client may know that the service trusts.
fn question(address: &str) -> Result<(), AskError> {
    let app = APP.to_owned();
    Asking::connect_for(address, ANSWER_TIMEOUT)?
        .ask::<Explanation>(&ExplainApplication { app })
        .map(drop)
}

/// Proves the secret first: a service counts a client without one as an attack, and logs it. Also
/// returns whether the service has secrets.
fn proof(name: &str, address: &str, clients: &Clients<'_>) -> (Finding, bool) {
    let known = secret(clients);
    let proved = match &known {
        Ok(Some(secret)) => authenticated(address, secret),
        _ => question(address),
    };
    let finding = match (known, proved) {
        (Ok(Some(_)), Ok(())) => SECRET.ok(format!("{name} has the secret of the application")),
        (Ok(Some(_)), Err(error)) if question(address).is_err() => SECRET.error(format!(
            "{name} has another secret, or none for applications without a file of their own: \
             {error}"
        )),
        (Ok(None), Err(_)) => unknown(name, clients),
        (Err(problem), asked) => return (SECRET.error(problem), asked.is_err()),
        _ => return (without_secrets(name), false),
    };
    (finding, true)
}

fn without_secrets(name: &str) -> Finding {
    SECRET
        .error(format!(
            "{name} has no secrets, and the application authenticates: the plugin does not use it \
             (NO_SERVICE)"
        ))
        .instead("Start the daemon with --secrets and the secret of the application.")
}

/// The service asks for a secret, and nobody says which one the application has.
fn unknown(name: &str, clients: &Clients<'_>) -> Finding {
    match clients.settings.is_some_and(Settings::makes_a_secret) {
        true => SECRET
            .note(format!(
                "{name} asks for a secret. Spark makes the one of an application here, whatever \
                 spark.authenticate.secret says: it is not compared"
            ))
            .instead("Nothing, if the service is that of a NodeManager, which gets it from YARN."),
        false => SECRET
            .note(format!(
                "{name} asks for a secret, and the settings have none: it is not compared"
            ))
            .instead("Name the file with the application's secret with --secrets."),
    }
}

fn authenticated(address: &str, secret: &Secret) -> Result<(), AskError> {
    let app = AppId::new(APP).map_err(|bad| AskError::Refused(bad.to_string()))?;
    let mut asking = Asking::connect_for(address, ANSWER_TIMEOUT)?;
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
    if settings.makes_a_secret() || settings.has_a_secret_file() {
        return None;
    }
    let given = settings.get("spark.authenticate.secret");
    let given = given.filter(|text| !text.contains("(redacted)"));
    given.map(|text| text.as_bytes().to_vec())
}

// SPDX-License-Identifier: Apache-2.0
//! Explain: the driver's report about its shuffles.

use lodestone_model::{AppId, Refusal};
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::status::Done;

use super::Call;

pub(super) fn report(call: &Call, message: ReportApplication) -> Result<Done, Refusal> {
    let service = &call.service;
    let is_registered = |app: &AppId| service.store.check_application(app).is_ok();
    let now_ms = service.store.now_ms();
    service.reports.keep(message, now_ms, is_registered)?;
    Ok(Done {
        incarnation: service.incarnation(),
    })
}

/// Memory for the reports, and for the answer that contains them.
pub(super) fn memory(call: &Call, message: &ExplainApplication) -> u64 {
    2 * call.service.reports.bytes_of(&message.app)
}

pub(super) fn application(
    call: &Call,
    message: ExplainApplication,
) -> Result<Explanation, Refusal> {
    let service = &call.service;
    let now_ms = service.store.now_ms();
    let mut applications = match message.app.as_str() {
        "" => service.reports.list(now_ms),
        app => service.reports.of(app, now_ms),
    };
    applications.retain(|report| call.check_app(report.app.as_str()).is_ok());
    Ok(Explanation {
        incarnation: service.incarnation(),
        applications,
    })
}

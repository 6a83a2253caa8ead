// SPDX-License-Identifier: Apache-2.0
//! For operators: `/health`, `/metrics`, `/status` over HTTP. Read only.

use std::io;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use lodestone_model::State as LoadState;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::service::Service;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until the switch is thrown.
pub async fn run(
    listener: TcpListener,
    service: Arc<Service>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics_text))
        .route("/status", get(status))
        .with_state(service);
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    axum::serve(listener, routes)
        .with_graceful_shutdown(stopped)
        .await
}

fn state_name(state: LoadState) -> &'static str {
    match state {
        LoadState::Serving => "serving",
        LoadState::Draining => "draining",
        LoadState::DiskFull => "disk full",
        LoadState::DiskFailed => "disk failed",
    }
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    let state = service.load().state;
    let code = match state {
        LoadState::Serving => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", state_name(state))).into_response()
}

async fn metrics_text(State(service): State<Arc<Service>>) -> Response {
    match service.metrics.text(&service.load()) {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn status(State(service): State<Arc<Service>>) -> Response {
    let load = service.load();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "incarnation": service.store.incarnation().to_string(),
        "state": state_name(load.state),
        "memory_used_bytes": load.memory_used,
        "memory_limit_bytes": load.memory_limit,
        "disk_free_bytes": load.disk_free,
        "disk_size_bytes": load.disk_total,
        "connections": load.connections,
        "shuffles": load.shuffles,
        "segments": service.metrics.merge_segments_total.get(),
    }))
    .into_response()
}

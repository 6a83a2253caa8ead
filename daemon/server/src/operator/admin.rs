// SPDX-License-Identifier: Apache-2.0
//! For operators, over HTTP: a page at `/`, and what it shows at `/status`, `/applications` and
//! `/clients`; `/health`, `/metrics`. Read only, one request for each connection.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, DATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lodestone_model::State as LoadState;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::metrics::Form;
use crate::metrics::labels::sum;
use crate::operator::media;
use crate::process::accept;
use crate::service::Service;
use crate::service::clients::Clients;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// No other source than this endpoint.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'";

/// Applications that are listed.
const MAX_APPLICATIONS: usize = 100;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 32;

/// A connection lasts this long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The head of a request comes within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Serves until the switch is thrown.
pub async fn run(listener: TcpListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let routes = Router::new()
        .route("/", get(page))
        .route("/applications", get(applications))
        .route("/clients", get(clients))
        .route("/health", get(health))
        .route("/metrics", get(metrics_text))
        .route("/status", get(status))
        .with_state(service);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Further clients wait in the queue of the system.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            unreachable!("the semaphore is never closed");
        };
        let Some((socket, _)) = accept::next(|| listener.accept(), &mut stop).await else {
            return;
        };
        let routes = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let _place = place;
            let mut http = http1::Builder::new();
            http.keep_alive(false).max_buf_size(MAX_HEAD_BYTES);
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT);
            let connection = http.serve_connection(TokioIo::new(socket), routes);
            // A client that is slow or fails learns nothing, and may ask again.
            let _ = timeout(TIMEOUT, connection).await;
        });
    }
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

async fn metrics_text(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).iter();
    let form = media::form_for(accepted.filter_map(|value| value.to_str().ok()));
    let kind = match form {
        Form::Open => OPEN_METRICS,
        Form::Plain => PLAIN_METRICS,
    };
    match service.metrics.text(form, &service.seen()) {
        Ok(text) => ([(CONTENT_TYPE, kind)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn status(State(service): State<Arc<Service>>) -> Response {
    let seen = service.seen();
    let load = &seen.load;
    // hyper would repeat its last time until a clock that was set back comes to it again.
    let now = UNIX_EPOCH + Duration::from_millis(service.store.unix_ms());
    let status = Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "zone": service.zone,
        "incarnation": service.store.incarnation().to_string(),
        "state": state_name(load.state),
        "memory_used_bytes": load.memory_used,
        "memory_limit_bytes": load.memory_limit,
        "disk_free_bytes": load.disk_free,
        "disk_size_bytes": load.disk_total,
        "connections": load.connections,
        "shuffles": load.shuffles,
        "segments": service.metrics.merge_segments_total.get(),
        "push_bytes_total": service.metrics.push_bytes_total.get(),
        "push_refused_total": service.metrics.push_refused_total.get(),
        "fetch_bytes_total": service.metrics.fetch_bytes_total.get(),
        "fetch_failures_total": sum(&service.metrics.fetch_failures_total),
        "authentication_failures_total": service.metrics.authentication_failures_total.get(),
        "disks": service.metrics.disks(&seen),
    }));
    ([(DATE, httpdate::fmt_http_date(now))], status).into_response()
}

/// The page asks again and again for what it shows. It takes nothing from another server, and runs
/// no script but its own.
async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
    ];
    (headers, include_str!("page.html")).into_response()
}

async fn applications(State(service): State<Arc<Service>>) -> Response {
    // Counts the bytes of each partition, of which there may be millions.
    let counted = tokio::task::spawn_blocking(move || {
        let (holdings, count) = service.store.holdings(MAX_APPLICATIONS);
        let each = holdings.iter().map(|one| {
            json!({
                "application": one.app.to_string(),
                "attempt": one.attempt.to_string(),
                "merged_shuffles": one.merged_shuffles,
                "remote_shuffles": one.remote_shuffles,
                "bytes": one.bytes,
                "memory_bytes": one.unwritten_bytes,
                "lease_left_ms": one.lease_left_ms,
            })
        });
        json!({"count": count, "applications": each.collect::<Vec<_>>()})
    });
    match counted.await {
        Ok(counted) => Json(counted).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn clients(State(service): State<Arc<Service>>) -> Response {
    let Clients {
        count,
        traffic,
        slow_count,
        slow,
    } = service.clients.now();
    let each = traffic.iter().map(|(whose, sum)| {
        json!({
            "application": whose.application,
            "host": whose.host,
            "connections": sum.connections,
            "received_bytes": sum.received_bytes,
            "sent_bytes": sum.sent_bytes,
        })
    });
    Json(json!({
        "count": count,
        "clients": each.collect::<Vec<_>>(),
        "slow_count": slow_count,
        "slow": slow,
    }))
    .into_response()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use lodestone_store::fs::fake::FakeFs;
    use lodestone_store::{Environment, ManualClock, Store, StoreConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::service::MemorySplit;

    fn service(clock: Arc<ManualClock>) -> Arc<Service> {
        let dirs = vec![PathBuf::from("/disk")];
        let environment = Environment {
            fs: Arc::new(FakeFs::with_dirs(dirs.clone())),
            clock,
            ..Environment::os()
        };
        let split = MemorySplit::of(64 << 20);
        let config = StoreConfig::of(dirs, split.store_bytes);
        Service::new(Store::open(config, environment).unwrap(), split)
    }

    /// Sends this, and reads no answer.
    async fn begin(address: SocketAddr, request: &[u8]) -> TcpStream {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request).await.unwrap();
        socket
    }

    async fn answer_on(socket: &mut TcpStream) -> String {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    const HALF: &[u8] = b"GET /health HT";
    const WHOLE: &[u8] = b"GET /health HTTP/1.1\r\nhost: here\r\n\r\n";

    /// Serves until the returned value is dropped.
    async fn endpoint() -> (SocketAddr, watch::Sender<bool>) {
        endpoint_at(Arc::default()).await
    }

    async fn endpoint_at(clock: Arc<ManualClock>) -> (SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(run(listener, service(clock), stopped));
        (address, stop)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_send_half_a_request_do_not_keep_others_from_the_endpoint() {
        let (address, _stop) = endpoint().await;
        let mut silent = Vec::new();
        for _ in 0..2 * MAX_CONNECTIONS {
            silent.push(begin(address, HALF).await);
        }
        let mut probe = begin(address, WHOLE).await;
        let answer = answer_on(&mut probe).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// The time stands still while the sockets have something.
    #[tokio::test(start_paused = true)]
    async fn one_connection_more_than_are_served_at_a_time_waits_until_one_of_them_ends() {
        let (address, _stop) = endpoint().await;
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            silent.push(begin(address, HALF).await);
        }
        let mut probe = begin(address, WHOLE).await;
        let waits = timeout(HEAD_TIMEOUT / 2, answer_on(&mut probe)).await;
        assert!(waits.is_err(), "it is served beside all others");
        drop(silent.pop());
        let served = timeout(HEAD_TIMEOUT / 4, answer_on(&mut probe)).await;
        assert!(served.unwrap().starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn the_status_has_the_time_of_the_clock_also_after_it_was_set_back() {
        let clock = Arc::new(ManualClock::default());
        clock.advance_ms(1_000_999);
        let (address, _stop) = endpoint_at(clock).await;
        // The runtime has one thread, which keeps the time of this answer: it is today's.
        let earlier = answer_on(&mut begin(address, WHOLE).await).await;
        assert!(!earlier.contains(" 1970 "), "{earlier}");
        let status = b"GET /status HTTP/1.1\r\nhost: here\r\n\r\n";
        let answer = answer_on(&mut begin(address, status).await).await;
        let dates = answer.lines().filter(|line| line.starts_with("date: "));
        let dates: Vec<&str> = dates.collect();
        assert_eq!(dates, ["date: Thu, 01 Jan 1970 00:16:40 GMT"]);
    }
}

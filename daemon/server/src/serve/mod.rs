// SPDX-License-Identifier: Apache-2.0
//! Accept, admit, end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::connection;
use crate::connection::table::ConnectionTable;
use crate::process::accept::pause_after;
use crate::process::disks::DiskWatch;
use crate::process::leases::LeaseWatch;
use crate::process::shutdown::Stop;
use crate::process::write_out;
use crate::process::write_threads::WriteThreads;
use crate::service::Service;

pub mod start;

/// How long connections may take to finish the requests in work when the daemon stops: a little
/// more than the limit of each of them.
const STOP_TIMEOUT: Duration = Duration::from_secs(11);

/// The settings of `run` beside the service.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    /// Connections served at once. When there are more, the quietest ends.
    pub max_connections: usize,
    /// End when there was no connection for this long.
    pub idle_exit: Option<Duration>,
}

/// Keeps the port of a daemon that stops, until it is dropped: the next daemon on the port must not
/// get it before the handover is complete. A client that connects meanwhile is turned away, and
/// tries again.
#[derive(Debug)]
#[must_use = "the port is free as soon as this is dropped"]
pub struct HeldPort(JoinHandle<()>);

impl HeldPort {
    fn of(listener: TcpListener) -> Self {
        Self(tokio::spawn(async move {
            loop {
                if let Err(error) = listener.accept().await {
                    pause_after(error).await;
                }
            }
        }))
    }
}

impl Drop for HeldPort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves until it is asked to stop and the data in memory is written out, or until it is idle for
/// too long; then finishes the requests in work. The store stays open.
pub async fn run(
    listener: TcpListener,
    service: Arc<Service>,
    admission: Admission,
    stop: &Stop,
) -> io::Result<HeldPort> {
    let leases = LeaseWatch::start(Arc::clone(&service))?;
    let _disks = DiskWatch::start(&service)?;
    let _writers = WriteThreads::start(&service.store)?;
    tokio::spawn(write_out::when_asked(
        Arc::clone(&service.store),
        stop.clone(),
    ));
    // Clients keep a daemon with an idle exit alive by their connections.
    let table = ConnectionTable::new(admission.max_connections, admission.idle_exit.is_none());
    let seen = Arc::clone(&table);
    service.clients.seen_by(move || seen.clients());
    let mut connections = JoinSet::new();
    let mut stopped = stop.watch();
    let mut drained = service.drained.subscribe();
    let idle = idle_for(service.open.subscribe(), admission.idle_exit);
    tokio::pin!(idle);
    let mut number = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = drained.wait_for(|drained| *drained) => {
                tracing::info!("drained: nothing is held any more");
                break;
            }
            () = &mut idle => {
                tracing::info!("no connection for the time of idle-exit");
                break;
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((socket, peer)) => {
                number += 1;
                service.metrics.connections_total.inc();
                let open = OpenConnection::new(&service);
                let (service, table, stop) =
                    (Arc::clone(&service), Arc::clone(&table), stop.watch());
                connections.spawn(async move {
                    match table.enter(number).await {
                        Some(place) => {
                            connection::serve(socket, peer, place, service, stop).await;
                        }
                        None => refuse(&service, peer),
                    }
                    drop(open);
                });
            }
            Err(error) => pause_after(error).await,
        }
    }
    let port = HeldPort::of(listener);
    drop(leases);
    stop.now();
    let all_done = async { while connections.join_next().await.is_some() {} };
    if timeout(STOP_TIMEOUT, all_done).await.is_err() {
        tracing::warn!(
            left = connections.len(),
            "connections did not finish in time"
        );
    }
    Ok(port)
}

/// Counts a connection while it is open.
struct OpenConnection(Arc<Service>);

impl OpenConnection {
    fn new(service: &Arc<Service>) -> Self {
        service.open.send_modify(|open| *open += 1);
        Self(Arc::clone(service))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

fn refuse(service: &Service, peer: SocketAddr) {
    service.metrics.connections_refused_total.inc();
    tracing::warn!(%peer, "connection closed: max-connections is reached, and none ended in time");
}

/// Returns when no connection was open for that long, never without a limit.
async fn idle_for(mut open: watch::Receiver<usize>, limit: Option<Duration>) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        // The sender lives as long as the service; if it is gone, there are no connections.
        if open.wait_for(|open| *open == 0).await.is_err() {
            return;
        }
        if timeout(limit, open.wait_for(|open| *open > 0))
            .await
            .is_err()
        {
            return;
        }
    }
}

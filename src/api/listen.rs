//! Connections to the API.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::process;
use crate::server::App;

/// Pause after a connection that could not be taken: files may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests until the server stops, and those that are open then to their end. Without a token whoever reaches the
/// port may use the API, so Python that we confined must not reach it.
pub async fn serve(app: App, listener: TcpListener) {
    let (is_open, stop) = (app.api_token.is_none(), app.stop_signal());
    let service = warp::service(super::routes(app));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (service, watcher) = (service.clone(), graceful.watcher());
        tokio::spawn(async move {
            if is_open && is_refused(&stream, client).await {
                tracing::warn!(
                    "refused a connection of Python code that is confined; with an `api_token`, the API is closed to it"
                );
                return;
            }
            let builder = Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection_with_upgrades(
                TokioIo::new(stream),
                TowerToHyperService::new(service),
            );
            // What strangers send is no error of ours.
            let _ = watcher.watch(connection.into_owned()).await;
        });
    }
    graceful.shutdown().await;
}

async fn is_refused(stream: &TcpStream, client: SocketAddr) -> bool {
    let Ok(server) = stream.local_addr() else {
        return true;
    };
    let looked =
        tokio::task::spawn_blocking(move || process::may_be_confined(client, server)).await;
    looked.unwrap_or(true)
}

//! For fuzzing: what a stranger sends over a connection.

use std::convert::Infallible;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use warp::Filter;

use crate::api::http::args::{self, Args, Segment};

/// More than all answers to what a fuzzer sends.
const ANSWER_BYTES: usize = 1 << 20;

/// Any bytes as what arrives on a connection: heads, queries, bodies, path segments. Answered, or closed, and no 500.
pub fn http(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let Ok(runtime) = runtime else {
        return;
    };
    let answer = runtime.block_on(answer(bytes));
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("HTTP/1.1 500"), "{answer}");
}

async fn answer(bytes: &[u8]) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(ANSWER_BYTES);
    let service = TowerToHyperService::new(warp::service(routes()));
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(server), service);
    let talk = async {
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        answer
    };
    // What strangers send is no error of ours.
    let (_, answer) = tokio::join!(connection, talk);
    answer
}

fn routes() -> impl Filter<Extract = (impl warp::Reply,), Error = Infallible> + Clone {
    let read = |segment: Segment, args: Args| {
        let _ = (args.environment(), args.of_the_list(), segment.0.len());
        let _ = (
            args.flag("flag", true),
            args.list("list"),
            args.text("text"),
        );
        let _ = (args.parsed::<i64>("limit"), args.filter("name"));
        let _ = args.only_filters(&["name"]);
        "read"
    };
    let with_body = warp::post()
        .and(warp::path::param::<Segment>())
        .and(warp::path::end())
        .and(args::body())
        .map(read);
    let with_query = warp::path::param::<Segment>()
        .and(warp::path::end())
        .and(args::query())
        .map(read);
    with_body.or(with_query).recover(|_| async {
        let refused = warp::http::StatusCode::BAD_REQUEST;
        Ok::<_, Infallible>(warp::reply::with_status("refused", refused))
    })
}

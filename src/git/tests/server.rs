//! A web server for tests: `git http-backend` behind whatever a test wants to do first.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a test saw of a request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With the query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

/// What a test does with a request.
pub enum Reply {
    /// Hand it to git.
    Git,
    /// Send these bytes and close.
    Raw(Vec<u8>),
    /// Take over the connection.
    Stream(Box<dyn FnOnce(TcpStream) + Send>),
}

impl Reply {
    pub fn status(status: &str, headers: &str) -> Reply {
        Reply::Raw(
            format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Length: 0\r\n\r\n")
                .into_bytes(),
        )
    }

    pub fn redirect(location: &str) -> Reply {
        Reply::status("302 Found", &format!("Location: {location}\r\n"))
    }

    /// The refs, if they were these bytes.
    pub fn refs(bytes: &[u8]) -> Reply {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\nConnection: close\r\n\r\n";
        Reply::Raw([head.as_bytes(), bytes].concat())
    }
}

type Behaviour = dyn Fn(&Request) -> Reply + Send + Sync;

pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves the repositories below `root`.
    pub fn start(
        root: &Path,
        behaviour: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
        };
        let (root, requests, behaviour) = (
            root.to_owned(),
            server.requests.clone(),
            Arc::new(behaviour),
        );
        // Ends with the test's process; a test server needs no more.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (root, requests, behaviour) =
                    (root.clone(), requests.clone(), behaviour.clone());
                thread::spawn(move || serve(stream, &root, &requests, behaviour.as_ref()));
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    root: &Path,
    requests: &Mutex<Vec<Request>>,
    behaviour: &Behaviour,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader) {
        requests.lock().unwrap().push(request.clone());
        match behaviour(&request) {
            Reply::Git => stream.write_all(&git(root, &request)).ok()?,
            Reply::Raw(bytes) => {
                stream.write_all(&bytes).ok()?;
                return None;
            }
            Reply::Stream(take_over) => {
                take_over(stream);
                return None;
            }
        }
    }
    None
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    let length = request
        .header("Content-Length")
        .map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn git(root: &Path, request: &Request) -> Vec<u8> {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &request.method)
        .env(
            "CONTENT_TYPE",
            request.header("Content-Type").unwrap_or_default(),
        )
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = request.body.clone();
    let writer = thread::spawn(move || stdin.write_all(&body));
    let output = child.wait_with_output().unwrap().stdout;
    let _ = writer.join();
    let split = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(output[..split].to_vec()).unwrap();
    let body = &output[split + 4..];
    let status = head
        .lines()
        .find_map(|line| line.strip_prefix("Status: "))
        .unwrap_or("200 OK");
    let head = format!(
        "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The folder of the `World`'s repository as the server names it.
pub fn root_of(source: &Path) -> PathBuf {
    source.parent().unwrap().to_owned()
}

//! Git's smart protocol over http and https, for reading only.
//!
//! A fetch is one GET of the refs and then POSTs, each of which is a whole request of libgit2's and its answer.
//! Redirects are followed by hand, and only within the origin (scheme, host and port) of the repository's URL;
//! so the login, which goes along with each request, reaches no other host. Link-local addresses are left out of
//! what a host name resolves to, whatever DNS says at that moment.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, BodyReader, Proxy};

use super::{REFS_MAX_BYTES, Session, check_format};
use crate::domain::printable;
use crate::git::echo::basic;
use crate::git::error::Error;
use crate::git::rules::{Reach, is_private};
use crate::git::url::{Address, is_link_local};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_REDIRECTS: usize = 5;
/// What libgit2 may ask in one request: ids of commits, 50 bytes each.
const MAX_REQUEST_BYTES: usize = 64 << 20;
const REFS: &str = "/info/refs?service=git-upload-pack";

pub(super) fn create(
    remote: &git2::Remote<'_>,
    session: Arc<Session>,
) -> Result<Transport, git2::Error> {
    let connection = Connection::new(session.clone()).map_err(|error| fail(&session, error))?;
    Transport::smart(remote, true, Http(Arc::new(connection)))
}

/// Leaves `error` in the session and gives libgit2 something to stop at.
fn fail(session: &Session, error: Error) -> git2::Error {
    session.fail(error);
    git2::Error::from_str("the transport failed")
}

struct Http(Arc<Connection>);

impl SmartSubtransport for Http {
    fn action(
        &self,
        _url: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        match service {
            Service::UploadPackLs => {
                let advertised = self
                    .0
                    .advertisement()
                    .map_err(|error| fail(&self.0.session, error))?;
                Ok(Box::new(advertised))
            }
            Service::UploadPack => Ok(Box::new(Exchange {
                connection: self.0.clone(),
                request: Vec::new(),
                answer: None,
            })),
            Service::ReceivePackLs | Service::ReceivePack => {
                Err(git2::Error::from_str("pushing is not supported"))
            }
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

struct Connection {
    session: Arc<Session>,
    agent: Agent,
    /// `scheme://host[:port]` of the repository's URL. Nothing else is ever asked.
    origin: String,
    /// Where the repository is, which a redirect within the origin may change.
    base: Mutex<String>,
    authorization: Option<String>,
}

impl Connection {
    fn new(session: Arc<Session>) -> Result<Connection, Error> {
        let Address::Http { origin, path, .. } = &session.address else {
            return Err(session.unreachable("this is no http address"));
        };
        let proxy = match &session.options.proxy {
            Some(proxy) => Some(
                Proxy::new(proxy)
                    .map_err(|_| session.unreachable("the proxy's address is wrong"))?,
            ),
            None => None,
        };
        let silence = session.options.silence;
        let config = Agent::config_builder()
            .user_agent("git/steward")
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT.min(silence)))
            .timeout_recv_response(Some(silence))
            .timeout_per_read(Some(silence))
            .timeout_per_write(Some(silence))
            .tls_config(
                TlsConfig::builder()
                    .root_certs(RootCerts::PlatformVerifier)
                    .build(),
            )
            .build();
        let agent = Agent::with_parts(
            config,
            DefaultConnector::default(),
            GuardedResolver::new(session.options.reach),
        );
        let login = session.credentials.login.as_ref();
        let authorization = login.map(|login| format!("Basic {}", basic(login)));
        let (origin, base) = (origin.clone(), Mutex::new(format!("{origin}{path}")));
        Ok(Connection {
            session,
            agent,
            origin,
            base,
            authorization,
        })
    }

    fn base(&self) -> String {
        self.base
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Asks for the refs, and finds out where the repository has moved to.
    fn advertisement(&self) -> Result<Answer, Error> {
        let mut url = format!("{}{REFS}", self.base());
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self
                .agent
                .get(&url)
                .header("Accept", "*/*")
                .header("Pragma", "no-cache");
            if let Some(authorization) = &self.authorization {
                request = request.header("Authorization", authorization);
            }
            let request = request.config().timeout_global(Some(self.left()?)).build();
            let response = request.call().map_err(|error| self.explain(&error))?;
            if response.status().is_redirection() {
                url = self.follow(&url, &response)?;
                continue;
            }
            self.check(&response, "application/x-git-upload-pack-advertisement")?;
            if let Some(base) = url.strip_suffix(REFS) {
                base.clone_into(&mut self.base.lock().unwrap_or_else(PoisonError::into_inner));
            }
            let max_bytes = self.session.options.bytes.min(REFS_MAX_BYTES);
            let mut answer = Answer::new(self.session.clone(), response.into_body(), max_bytes);
            return match answer.check_format() {
                Ok(()) => Ok(answer),
                Err(error) => Err(self
                    .session
                    .take_failure()
                    .unwrap_or_else(|| self.session.unreachable(&error.to_string()))),
            };
        }
        Err(self.session.unreachable("it redirects without end"))
    }

    /// Where a redirect leads: an address of the refs within the same origin, or an error.
    fn follow(&self, from: &str, response: &Response<Body>) -> Result<String, Error> {
        let location = response
            .headers()
            .get("location")
            .and_then(|value| value.to_str().ok());
        let location =
            location.ok_or_else(|| self.session.unreachable("it redirects to nowhere"))?;
        let url = if location.starts_with('/') && !location.starts_with("//") {
            format!("{}{location}", self.origin)
        } else {
            location.to_owned()
        };
        match url.parse::<Uri>().ok().as_ref().and_then(origin_of) {
            Some(origin) if origin == self.origin => (),
            origin => {
                let target = origin.map_or("an address that is none".to_owned(), |origin| {
                    printable(&origin, 200)
                });
                return Err(Error::Redirected {
                    url: self.session.url.clone(),
                    target,
                });
            }
        }
        if !url.ends_with(REFS) || url == from {
            let cause = "it redirects to a page that is no repository, perhaps a login";
            return Err(self.session.not_a_repository(cause));
        }
        // Rebuilt from the origin, so that a user name in the location is dropped.
        let path = url
            .parse::<Uri>()
            .ok()
            .and_then(|uri| uri.path_and_query().map(ToString::to_string));
        Ok(format!("{}{}", self.origin, path.unwrap_or_default()))
    }

    fn exchange(&self, request_body: &[u8]) -> Result<Answer, Error> {
        let mut request = self
            .agent
            .post(format!("{}/git-upload-pack", self.base()))
            .header("Content-Type", "application/x-git-upload-pack-request")
            .header("Accept", "application/x-git-upload-pack-result");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request = request.config().timeout_global(Some(self.left()?)).build();
        let response = request
            .send(request_body)
            .map_err(|error| self.explain(&error))?;
        self.check(&response, "application/x-git-upload-pack-result")?;
        let max_bytes = self.session.options.bytes;
        Ok(Answer::new(
            self.session.clone(),
            response.into_body(),
            max_bytes,
        ))
    }

    fn left(&self) -> Result<Duration, Error> {
        self.session
            .remaining()
            .ok_or_else(|| self.session.timed_out())
    }

    /// Whether `response` is a good one of the type that git's protocol wants.
    fn check(&self, response: &Response<Body>, content_type: &str) -> Result<(), Error> {
        let session = &self.session;
        let (status, has_login) = (response.status().as_u16(), self.authorization.is_some());
        match status {
            200 => (),
            401 if has_login => {
                return Err(session.authentication("it did not accept the user and token"));
            }
            401 => return Err(session.authentication("no credentials are configured for it (`credentials` of the environment, or --token-file of `steward up`)")),
            403 => return Err(session.authentication("it forbids access (403)")),
            404 | 410 if has_login => {
                return Err(session.not_a_repository("the server knows none there (404)"));
            }
            404 | 410 => {
                let cause = "the server knows none there (404), or shows it only with credentials";
                return Err(session.not_a_repository(cause));
            }
            _ => return Err(session.unreachable(&format!("it answered with status {status}"))),
        }
        if response.body().mime_type() != Some(content_type) {
            return Err(
                session.not_a_repository("the server does not speak git's smart protocol there")
            );
        }
        Ok(())
    }

    fn explain(&self, error: &ureq::Error) -> Error {
        match error {
            ureq::Error::Timeout(_) => self.session.too_slow(),
            ureq::Error::HostNotFound => self.session.unreachable("the host name has no address"),
            ureq::Error::Other(error) => match error.downcast_ref::<PrivateHost>() {
                Some(PrivateHost(address)) => self.session.private_host(*address),
                None => self.session.unreachable(&error.to_string()),
            },
            ureq::Error::Io(error) if is_timeout(error) => self.session.too_slow(),
            // Texts of ureq hold no header and no body.
            _ => self.session.unreachable(&error.to_string()),
        }
    }
}

/// One request of libgit2, collected until it reads, and the answer to it.
struct Exchange {
    connection: Arc<Connection>,
    request: Vec<u8>,
    answer: Option<Answer>,
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.answer.is_some() || self.request.len() + bytes.len() > MAX_REQUEST_BYTES {
            return Err(io::Error::other("the request to the remote is too long"));
        }
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.answer.is_none() {
            let answer = self.connection.exchange(&self.request).map_err(|error| {
                self.connection.session.fail(error);
                io::Error::other("the transport failed")
            })?;
            self.answer = Some(answer);
        }
        match &mut self.answer {
            Some(answer) => answer.read(buffer),
            None => Ok(0),
        }
    }
}

/// The body of an answer, within the limits of the session.
struct Answer {
    session: Arc<Session>,
    /// What was read ahead and not yet handed on.
    ahead: Vec<u8>,
    body: BodyReader<'static>,
    n_bytes: u64,
    max_bytes: u64,
}

impl Answer {
    fn new(session: Arc<Session>, body: Body, max_bytes: u64) -> Answer {
        Answer {
            session,
            ahead: Vec::new(),
            body: body.into_reader(),
            n_bytes: 0,
            max_bytes,
        }
    }

    /// Looks at the start of the refs, where the server names the format of its ids.
    fn check_format(&mut self) -> io::Result<()> {
        const FIRST_LINES_BYTES: usize = 4096;
        let mut ahead = vec![0; FIRST_LINES_BYTES];
        let mut length = 0;
        while length < ahead.len() {
            match self.read(&mut ahead[length..])? {
                0 => break,
                n => length += n,
            }
        }
        ahead.truncate(length);
        check_format(&self.session, &ahead)?;
        self.ahead = ahead;
        Ok(())
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let n = self.ahead.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.ahead[..n]);
            self.ahead.drain(..n);
            return Ok(n);
        }
        if self.session.remaining().is_none() {
            self.session.fail(self.session.timed_out());
            return Err(io::ErrorKind::TimedOut.into());
        }
        let n = self.body.read(buffer).inspect_err(|error| {
            self.session.fail(match is_timeout(error) {
                true => self.session.too_slow(),
                false => self.session.unreachable(&error.to_string()),
            });
        })?;
        self.n_bytes += n as u64;
        // libgit2 counts what is packed; here it is all that comes.
        if self.n_bytes > self.max_bytes {
            self.session.fail(self.session.too_large(self.max_bytes));
            return Err(io::Error::other("the answer is too large"));
        }
        self.session.received(n)?;
        Ok(n)
    }
}

impl Write for Answer {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("the refs are only read"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Resolves like the system, without the addresses that no repository may have.
/// ureq connects to what this gives, so the addresses that are judged are those that are connected to.
#[derive(Debug)]
pub struct GuardedResolver {
    resolver: DefaultResolver,
    reach: Reach,
}

impl GuardedResolver {
    pub fn new(reach: Reach) -> Self {
        Self {
            resolver: DefaultResolver::default(),
            reach,
        }
    }
}

/// All addresses of a host are private, this one among them.
#[derive(Debug, thiserror::Error)]
#[error("the host is at the private address {0}")]
struct PrivateHost(IpAddr);

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        let mut private = None;
        for address in found.iter() {
            let ip = address.ip();
            if self.reach == Reach::Public && is_private(ip) {
                private = Some(ip);
            } else if !is_link_local(ip) {
                allowed.push(*address);
            }
        }
        match (allowed.is_empty(), private) {
            (false, _) => Ok(allowed),
            (true, Some(address)) => Err(ureq::Error::Other(Box::new(PrivateHost(address)))),
            (true, None) => Err(ureq::Error::HostNotFound),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    ) || matches!(
        error.get_ref().and_then(|inner| inner.downcast_ref()),
        Some(ureq::Error::Timeout(_))
    )
}

/// `scheme://host[:port]` in the form that a [`RepositoryUrl`](crate::git::RepositoryUrl) has it.
fn origin_of(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let host = uri.host()?.to_ascii_lowercase();
    let default = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => 0,
    };
    match uri.port_u16().filter(|port| *port != default) {
        Some(port) => Some(format!("{scheme}://{host}:{port}")),
        None => Some(format!("{scheme}://{host}")),
    }
}

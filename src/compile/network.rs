//! The hosts that compiles of an environment may reach: none, unless the configuration grants them.
//!
//! A sandboxed process cannot make sockets. Where hosts are granted, it can connect to one port of this machine, where a
//! proxy of the server listens, which connects to the granted hosts and to nothing else. Python's HTTP clients (`urllib`,
//! `requests`, `httpx`) go there by themselves, by the variables `http_proxy` and `https_proxy`; whoever speaks another
//! protocol asks the proxy for a tunnel (`CONNECT`). The proxy resolves names itself, so a name that is granted cannot be
//! made to stand for another host by the compile. It asks for a password, which only compiles of the environment have: other
//! users of the machine do not get through.
//!
//! Package builds have a proxy for each installation, which lets all hosts through but this machine ([`Access::AllButOwn`]):
//! an index may have its files anywhere.
//!
//! Who wakes it: connections. It ends with the environment's loops, or with the installation.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures_util::FutureExt as _;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::process;

/// A request's first line and headers.
const MAX_HEAD_BYTES: u64 = 16 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A compile that waits longer for a host has ended by its own limit, as a rule.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(3600);
/// Connections at the same time for one environment.
const MAX_CONNECTIONS: usize = 64;
/// The ports of a host that is granted without a port.
const USUAL_PORTS: [u16; 2] = [80, 443];
const USER: &str = "steward";

/// A host that compiles may reach: `api.example.org` (ports 80 and 443) or `db.example.org:5432`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The host's name in lower case.
    host: String,
    port: Option<u16>,
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            // Without a colon there is no port, and an empty one is none.
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or_default())),
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port != 0));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(is_plain) || port == Some(None)
        {
            return Err(format!(
                "`{text}` is no host, such as api.example.org or db.example.org:5432"
            ));
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port: port.flatten(),
        })
    }
}

impl Grant {
    fn allows(&self, host: &str, port: u16) -> bool {
        let is_port = self
            .port
            .map_or(USUAL_PORTS.contains(&port), |granted| granted == port);
        is_port && host.trim_end_matches('.').eq_ignore_ascii_case(&self.host)
    }
}

/// The proxy of an environment.
#[derive(Clone)]
pub struct Proxy {
    pub(super) port: u16,
    password: Arc<str>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// Starts it on a port of this machine.
    ///
    /// # Errors
    /// Ports or file handles have run out.
    pub async fn start(access: Access, stop: CancellationToken) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let password: Arc<str> = hex::encode(rand::random::<[u8; 16]>()).into();
        let proxy = Self {
            port: listener.local_addr()?.port(),
            password: Arc::clone(&password),
        };
        let rules = Arc::new(Rules { access, password });
        tokio::spawn(serve(listener, rules, stop));
        Ok(proxy)
    }

    /// Where a compile's HTTP clients find it.
    pub(super) fn url(&self) -> String {
        format!("http://{USER}:{}@127.0.0.1:{}", self.password, self.port)
    }
}

/// What a proxy lets through.
#[derive(Debug, Clone)]
pub enum Access {
    /// The granted hosts, for compiles.
    Only(Vec<Grant>),
    /// All hosts, for package builds, but for this machine and what only its own network has (link-local addresses, the
    /// metadata services of clouds). The granted ones may be on this machine, but for this server itself: a repository names them.
    AllButOwn(Vec<Grant>),
}

impl Access {
    fn grants(&self) -> &[Grant] {
        match self {
            Self::Only(grants) | Self::AllButOwn(grants) => grants,
        }
    }

    fn grants_to(&self, host: &str, port: u16) -> bool {
        self.grants().iter().any(|grant| grant.allows(host, port))
    }
}

struct Rules {
    access: Access,
    password: Arc<str>,
}

/// Where clouds tell machines who they are, beside link-local addresses.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whether an address is one of this machine, or of services for it alone.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_special = match address {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified(),
    };
    is_special || address.is_multicast() || is_of_cloud(address)
}

/// Whether an address is of what a cloud has for its machines, which tells them secrets.
fn is_of_cloud(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_link_local || METADATA.contains(&address)
}

/// Whether a host is named as what it is: an address, or this machine. Any other name stands for what a name server says, and
/// that may be somebody else's.
fn is_literal(host: &str, address: IpAddr) -> bool {
    let host = host.trim_end_matches('.');
    let is_it = |named: IpAddr| named.to_canonical() == address.to_canonical();
    host.parse().is_ok_and(is_it) || (host == "localhost" && address.to_canonical().is_loopback())
}

/// Connects to a host by the first of its addresses that may be reached and answers.
///
/// What a name is granted for is a host elsewhere. So its addresses are judged, too: those of this machine, of its cloud, and
/// the server's own ports are reached only where the grant names them as what they are.
async fn connect(
    request: &Request,
    access: &Access,
    addresses: impl Iterator<Item = SocketAddr>,
) -> io::Result<TcpStream> {
    let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
    let is_granted = access.grants_to(&request.host, request.port);
    let is_build = matches!(access, Access::AllButOwn(_));
    let mut failed = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        let ip = address.ip();
        let is_explicit = is_granted && !is_build && is_literal(&request.host, ip);
        let is_closed = match access {
            Access::AllButOwn(_) => is_of_cloud(ip) || (!is_granted && is_own(ip)),
            Access::Only(_) => !is_explicit && is_own(ip),
        };
        if is_closed {
            failed = refused();
            continue;
        }
        match TcpStream::connect(address).await {
            // This is the end of a connection that nobody has used, so it was harmless. Whatever address of this machine it is,
            // it is at both ends. The server trusts whoever connects from there, and would take us for somebody else.
            Ok(stream) if !is_explicit && stream.local_addr()?.ip() == ip => {
                if !is_granted || !is_build || process::listens(address.port()) {
                    failed = refused();
                } else {
                    return Ok(stream);
                }
            }
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Looks the name up once, so that what is judged is what is connected to, and connects.
async fn resolve_and_connect(request: &Request, access: &Access) -> io::Result<TcpStream> {
    let addresses = lookup_host((request.host.as_str(), request.port)).await?;
    connect(request, access, addresses).await
}

async fn serve(listener: TcpListener, rules: Arc<Rules>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((client, _)) = accepted else {
            // Files have run out, as a rule; some will be closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (rules, stop) = (Arc::clone(&rules), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                // What a client or a host breaks off is no error of ours.
                _ = answer(client, &rules) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// What a client asks for.
struct Request {
    host: String,
    port: u16,
    /// What is sent to the host first; `None`: a tunnel is wanted.
    forwarded: Option<Vec<u8>>,
}

async fn answer(client: TcpStream, rules: &Rules) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let head = timeout(HEAD_TIMEOUT, head(&mut client)).await??;
    let request = match request(&head, rules) {
        Ok(request) => request,
        Err(refusal) => return client.write_all(refusal.as_bytes()).await,
    };
    let mut host = match timeout(
        CONNECT_TIMEOUT,
        resolve_and_connect(&request, &rules.access),
    )
    .await
    {
        Ok(Ok(host)) => host,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let Request { host, port, .. } = &request;
            let message = match rules.access {
                Access::AllButOwn(_) => format!(
                    "package builds may not reach {host}:{port}: it is on the server's machine, or for that machine only"
                ),
                Access::Only(_) => format!(
                    "compiles of this environment may not reach {host}:{port}: its name stands for the server's machine, or \
                     for what only that machine has; if that is meant, `network` has to name the address, or localhost"
                ),
            };
            let refusal = response("403 Forbidden", &message, "");
            return client.write_all(refusal.as_bytes()).await;
        }
        _ => {
            let refusal = response("502 Bad Gateway", "the host does not answer", "");
            return client.write_all(refusal.as_bytes()).await;
        }
    };
    match request.forwarded {
        Some(head) => host.write_all(&head).await?,
        None => {
            client
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await?
        }
    }
    let copied = tokio::io::copy_bidirectional(&mut client, &mut host);
    timeout(TUNNEL_TIMEOUT, copied).await??;
    Ok(())
}

/// The lines up to the empty one.
async fn head(client: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<String>> {
    let mut limited = client.take(MAX_HEAD_BYTES);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        limited.read_line(&mut line).await?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(lines);
        }
        lines.push(line.to_owned());
    }
}

/// What the head of a request asks for, or the answer that refuses it.
fn request(head: &[String], rules: &Rules) -> Result<Request, String> {
    let bad = || response("400 Bad Request", "this is a proxy", "");
    let (first, headers) = head.split_first().ok_or_else(bad)?;
    if !is_known(headers, &rules.password) {
        let ask = "Proxy-Authenticate: Basic realm=\"steward\"\r\n";
        return Err(response(
            "407 Proxy Authentication Required",
            "a password is needed",
            ask,
        ));
    }
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(bad());
    };
    let (authority, path) = match (method, target.strip_prefix("http://")) {
        ("CONNECT", _) => (target, None),
        (_, Some(rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (&rest[..end], Some(&rest[end..]))
        }
        _ => return Err(bad()),
    };
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let asked: Grant = authority.parse().map_err(|_| bad())?;
    let (host, port) = (asked.host, asked.port.unwrap_or(USUAL_PORTS[0]));
    let is_refused =
        matches!(rules.access, Access::Only(_)) && !rules.access.grants_to(&host, port);
    if is_refused {
        let message = format!(
            "compiles of this environment may not reach {host}:{port}: `network` of the configuration does not grant it"
        );
        return Err(response("403 Forbidden", &message, ""));
    }
    let forwarded = path.map(|path| {
        let path = if path.is_empty() { "/" } else { path };
        let kept = headers.iter().filter(|line| {
            let name = line
                .split(':')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            !name.starts_with("proxy-") && name != "connection"
        });
        let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
        format!("{method} {path} {version}\r\n{kept}Connection: close\r\n\r\n").into_bytes()
    });
    Ok(Request {
        host,
        port,
        forwarded,
    })
}

/// Whether a request has the password.
fn is_known(headers: &[String], password: &str) -> bool {
    let shown = headers.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("proxy-authorization");
        is_it.then(|| value.trim().strip_prefix("Basic "))?
    });
    let expected = format!("{USER}:{password}");
    let expected = base64::engine::general_purpose::STANDARD.encode(expected);
    shown.is_some_and(|shown| shown.trim().as_bytes().ct_eq(expected.as_bytes()).into())
}

fn response(status: &str, message: &str, headers: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{message}",
        message.len()
    )
}

/// For fuzzing: what a compile may send to the proxy, which knows the password if it is in there. Nothing is asked for that is
/// not granted, and no answer or head that is passed on has more parts than it should.
pub fn read_any_request(bytes: &[u8]) {
    // All of it is there, so nothing is waited for.
    let mut input = bytes;
    let Some(Ok(head)) = head(&mut input).now_or_never() else {
        return;
    };
    let granted = ["api.example.org", "db:5432", "[::1]:80"];
    let rules = Rules {
        access: Access::Only(
            granted
                .iter()
                .filter_map(|host| host.parse().ok())
                .collect(),
        ),
        password: "word".into(),
    };
    match request(&head, &rules) {
        Err(refusal) => {
            assert!(refusal.starts_with("HTTP/1.1 4"), "{refusal}");
            assert_eq!(refusal.matches("\r\n\r\n").count(), 1, "{refusal}");
        }
        Ok(Request {
            host,
            port,
            forwarded,
        }) => {
            assert!(rules.access.grants_to(&host, port), "{host}:{port}");
            let text = String::from_utf8(forwarded.unwrap_or_default()).unwrap_or_default();
            let lines: Vec<&str> = text.split("\r\n").collect();
            let n_empty = lines.iter().filter(|line| line.is_empty()).count();
            assert!(text.is_empty() || n_empty == 2, "{text:?}");
            assert!(
                !text.to_ascii_lowercase().contains("\r\nproxy-"),
                "{text:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(grants: &[&str]) -> Rules {
        let grants = grants.iter().map(|grant| grant.parse().unwrap()).collect();
        Rules {
            access: Access::Only(grants),
            password: "word".into(),
        }
    }

    fn ask(first: &str, grants: &[&str]) -> Result<Request, String> {
        let password = base64::engine::general_purpose::STANDARD.encode("steward:word");
        let head = [
            first.to_owned(),
            format!("Proxy-Authorization: Basic {password}"),
            "Proxy-Connection: keep-alive".to_owned(),
            "Host: x".to_owned(),
        ];
        request(&head, &rules(grants))
    }

    #[test]
    fn hosts_are_granted_by_name_and_port() {
        for good in [
            "a.example.org",
            "A.example.org:8443",
            "10.0.0.1:22",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(good.parse::<Grant>().is_ok(), "{good}");
        }
        for bad in [
            "", "a b", "http://a", "a:0", "a:x", "a:70000", "a/b", "*", "[::1]x",
        ] {
            assert!(bad.parse::<Grant>().is_err(), "{bad}");
        }
        let asked = ask("CONNECT API.example.org:443 HTTP/1.1", &["api.example.org"])
            .ok()
            .unwrap();
        assert_eq!((asked.host.as_str(), asked.port), ("api.example.org", 443));
        assert!(asked.forwarded.is_none());
        for other in [
            "CONNECT api.example.org:22 HTTP/1.1",
            "CONNECT other.example.org:443 HTTP/1.1",
            "CONNECT api.example.org.evil.org:443 HTTP/1.1",
            "CONNECT 127.0.0.1:443 HTTP/1.1",
            "GET http://api.example.org@evil.org/ HTTP/1.1",
        ] {
            let refusal = ask(other, &["api.example.org"]).err().unwrap();
            assert!(refusal.starts_with("HTTP/1.1 403"), "{other}: {refusal}");
        }
        assert!(ask("CONNECT db:5432 HTTP/1.1", &["db:5432"]).is_ok());
        assert!(ask("CONNECT db:443 HTTP/1.1", &["db:5432"]).is_err());
    }

    #[test]
    fn addresses_of_this_machine_and_of_its_cloud_are_its_own() {
        for own in [
            "127.0.0.1",
            "127.8.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "fd00:ec2::254",
            "224.0.0.1",
        ] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["10.0.0.1", "192.168.1.1", "203.0.113.5", "2001:db8::1"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }

    /// Input: a granted name that a name server says stands for this machine, for its cloud's metadata service, or for the
    /// server itself (docs/reference/security.md § 4.4). Answer: it is not reached; an address that is granted as such is.
    #[tokio::test]
    async fn a_granted_name_does_not_stand_for_this_machine_or_its_cloud() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let here = listener.local_addr().unwrap();
        let metadata: SocketAddr = "169.254.169.254:80".parse().unwrap();
        for (host, address, is_reached) in [
            ("api.partner.example", here, false),
            ("api.partner.example", metadata, false),
            ("localhost", here, true),
            ("127.0.0.1", here, true),
            ("127.0.0.2", here, false),
        ] {
            let access = Access::Only(vec![format!("{host}:{}", address.port()).parse().unwrap()]);
            let request = Request {
                host: host.to_owned(),
                port: address.port(),
                forwarded: None,
            };
            let connected = connect(&request, &access, [address].into_iter()).await;
            let error = connected.map(drop).map_err(|error| error.kind());
            let expected = match is_reached {
                true => Ok(()),
                false => Err(io::ErrorKind::PermissionDenied),
            };
            assert_eq!(error, expected, "{host} as {address}");
        }
    }

    /// Input: the same, where it stands for an address of this machine in its network (docs/reference/security.md § 4.4).
    /// Answer: the same.
    #[tokio::test]
    async fn a_granted_name_does_not_stand_for_an_address_of_this_machine_in_its_network() {
        // Where a packet would be sent from; none is. Without a network, this machine has no such address.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_err() {
            return;
        }
        let ip = socket.local_addr().unwrap().ip();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        for (host, is_reached) in [
            ("db.partner.example".to_owned(), false),
            (ip.to_string(), true),
        ] {
            let grant = format!("{host}:{}", address.port()).parse().unwrap();
            let request = Request {
                host,
                port: address.port(),
                forwarded: None,
            };
            let access = Access::Only(vec![grant]);
            let connected = connect(&request, &access, [address].into_iter()).await;
            assert_eq!(connected.is_ok(), is_reached, "{address}");
        }
    }

    #[test]
    fn plain_requests_are_passed_on_without_what_is_the_proxys() {
        let asked = ask("GET http://a/b?c HTTP/1.1", &["a"]).ok().unwrap();
        assert_eq!((asked.host.as_str(), asked.port), ("a", 80));
        let text = String::from_utf8(asked.forwarded.unwrap()).unwrap();
        assert_eq!(
            text,
            "GET /b?c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn without_the_password_nothing_is_reached() {
        let head = ["CONNECT a:443 HTTP/1.1".to_owned()];
        let refusal = request(&head, &rules(&["a"])).err().unwrap();
        assert!(refusal.starts_with("HTTP/1.1 407"), "{refusal}");
        assert!(
            !format!(
                "{:?}",
                Proxy {
                    port: 1,
                    password: "word".into()
                }
            )
            .contains("word")
        );
    }
}

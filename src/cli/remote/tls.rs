//! TLS to a server whose certificate is named in a file, as `ssl_ca_cert_file` of the reference names it.
//!
//! A file of authorities vouches for whom they have signed. But it may as well have the server's own certificate, which has
//! signed itself: `openssl req -x509` makes such ones, marks them as those of an authority, and the reference takes them. The
//! rules of the web (RFC 5280), which rustls follows, let no authority be a server. So a certificate is taken here, too, that is in
//! the file byte for byte, as long as it is valid at this time and for this name: that it is this one is more than a signature says.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};
use ureq::tls::{PemItem, parse_pem};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// What webpki calls the certificate of an authority that a server shows. The validity was looked at before.
pub(super) const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

/// All certificates of a file in PEM: there may be several authorities, or one and those that it stands for.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut certificates = Vec::new();
    for item in parse_pem(text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            certificates.push(CertificateDer::from(certificate.der().to_vec()));
        }
    }
    match certificates.is_empty() {
        true => Err("it has no `BEGIN CERTIFICATE`".to_owned()),
        false => Ok(certificates),
    }
}

/// Wraps connections of `https` in TLS, with a server that is one of those in a file, or is vouched for by one of them.
#[derive(Debug)]
pub(super) struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// With the certificates of a file in PEM.
    ///
    /// # Errors
    /// It cannot be read, or has none that can be used.
    pub(super) fn of_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        certificates(&text)
            .and_then(Self::new)
            .map_err(|error| format!("{} is no certificate: {error}", path.display()))
    }

    fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let known = Known::new(certificates)?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            // By this name rustls has all verifiers that are not its own.
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(known))
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }
}

impl<T: Transport> Connector<T> for TlsConnector {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<T>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        let transport: Box<dyn Transport> = Box::new(transport);
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(transport));
        }
        let host = details.uri.host().unwrap_or_default();
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| ureq::Error::Tls("the name of the server is none of DNS"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        let mut adapter = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        adapter.set_timeout(details.timeout);
        connection.complete_io(&mut adapter)?;
        let config = details.config;
        Ok(Some(Box::new(TlsTransport {
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            stream: StreamOwned::new(connection, adapter),
        })))
    }
}

/// A connection inside of TLS.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsTransport")
            .field("inner", &self.stream.sock.get_ref())
            .finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Takes a server that the file has vouched for, or that is in the file.
#[derive(Debug)]
struct Known {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl Known {
    fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let mut authorities = RootCertStore::empty();
        authorities.add_parsable_certificates(certificates.iter().cloned());
        let authorities =
            WebPkiServerVerifier::builder_with_provider(authorities.into(), provider()).build();
        Ok(Self {
            certificates,
            authorities: authorities.map_err(|error| error.to_string())?,
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // The days on which it is valid have been looked at before this is found; its name has not.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(cause)))
                if cause.to_string() == AUTHORITY_AS_SERVER
                    && self.certificates.iter().any(|known| known == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_certificates_of_a_file_count() {
        let one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let found = |text: &str| certificates(text.as_bytes()).map(|all| all.len());
        assert_eq!(found(one), Ok(1));
        assert_eq!(found(&format!("# an authority\n{one}\n{one}")), Ok(2));
        let key = one.replace("CERTIFICATE", "PRIVATE KEY");
        assert_eq!(found(&format!("{key}{one}")), Ok(1));
        assert!(found(&key).is_err() && found("").is_err());
    }

    /// As `openssl req -x509 -subj /CN=steward.example.org -addext subjectAltName=DNS:steward.example.org` makes one: of an
    /// authority, which vouches for itself; from 2026-11-29 to 2126-11-05.
    const OWN: &str = "\
-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUQTxNYpaNBAa/30BOc1aTmr13wqgwCgYIKoZIzj0EAwIw
HjEcMBoGA1UEAwwTc3Rld2FyZC5leGFtcGxlLm9yZzAgFw0yNjExMjkwMjIzNDFa
GA8yMTI2MTEwNTAyMjM0MVowHjEcMBoGA1UEAwwTc3Rld2FyZC5leGFtcGxlLm9y
ZzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIqGy46jLLGBO1DgTHq0xyfwNAIZ
4TshenUrLSX5YdHNoR3TL4v22F3fg+AvzOGG60GN7U7w+coHCCa6133oPbijczBx
MB0GA1UdDgQWBBQDZXE+uMaU77P7FhXA9Pnkx5v2cjAfBgNVHSMEGDAWgBQDZXE+
uMaU77P7FhXA9Pnkx5v2cjAPBgNVHRMBAf8EBTADAQH/MB4GA1UdEQQXMBWCE3N0
ZXdhcmQuZXhhbXBsZS5vcmcwCgYIKoZIzj0EAwIDSAAwRQIhAKBGvZ5zc5XjB98o
SW84m8W+A92zeeiBwZInF81JIj2PAiAF+BzgyUmjwgZegWnUcaQOd4yKJFNasht4
t7n5azeLHQ==
-----END CERTIFICATE-----";
    /// Made the same way.
    const ANOTHER: &str = "\
-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUOBdvs6J7eepytGd2L/AFBCt53R0wCgYIKoZIzj0EAwIw
HjEcMBoGA1UEAwwTc3Rld2FyZC5leGFtcGxlLm9yZzAgFw0yNjExMjkwMjIzNDFa
GA8yMTI2MTEwNTAyMjM0MVowHjEcMBoGA1UEAwwTc3Rld2FyZC5leGFtcGxlLm9y
ZzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJLz083B8zZDTT+bD+OjCByvgPhy
SXZo7C+tPTHy/flslXkxsuXx6pr+EvhbMEGIzcJmAnjoJtHY0sFL/HT+2RWjczBx
MB0GA1UdDgQWBBQq0I1ETxGVPlj0FiTJkplXfq55UzAfBgNVHSMEGDAWgBQq0I1E
TxGVPlj0FiTJkplXfq55UzAPBgNVHRMBAf8EBTADAQH/MB4GA1UdEQQXMBWCE3N0
ZXdhcmQuZXhhbXBsZS5vcmcwCgYIKoZIzj0EAwIDSAAwRQIgMm22gepztxJg3QJG
XlTtrqZ2Iw78z2hbU1qlNZ4VMnQCIQDmqGXlumvnClcHPhMtiIc/k5h1WdWVHd+4
NOLiUZfaog==
-----END CERTIFICATE-----";

    #[test]
    fn a_certificate_that_vouches_for_itself_is_taken_if_it_is_that_of_the_file() {
        let [own, another] = [OWN, ANOTHER].map(|text| certificates(text.as_bytes()).unwrap());
        let known = Known::new(own.clone()).unwrap();
        let is_taken = |certificate: &CertificateDer<'static>, name: &'static str, days: u64| {
            let name = ServerName::try_from(name).unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
            known
                .verify_server_cert(certificate, &[], &name, &[], now)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        let (in_2026, in_2027, in_2130) = (20_600, 20_900, 58_500);
        assert_eq!(is_taken(&own[0], "steward.example.org", in_2027), Ok(()));
        let refused = is_taken(&own[0], "elsewhere.example.org", in_2027).unwrap_err();
        assert!(refused.contains("not valid for"), "{refused}");
        let refused = is_taken(&own[0], "steward.example.org", in_2026).unwrap_err();
        assert!(refused.contains("not valid yet"), "{refused}");
        let refused = is_taken(&own[0], "steward.example.org", in_2130).unwrap_err();
        assert!(refused.contains("expired"), "{refused}");
        let refused = is_taken(&another[0], "steward.example.org", in_2027).unwrap_err();
        assert!(refused.contains(AUTHORITY_AS_SERVER), "{refused}");
    }
}

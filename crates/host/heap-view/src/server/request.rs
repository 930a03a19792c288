//! The relevant parts of a request.

/// Maximum headers of a request.
const HEADERS: usize = 64;
/// Host names of this machine.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) is_get: bool,
    path: &'a str,
    /// The part after `?`.
    pub(super) query: &'a str,
    /// All `Host` headers; exactly one is valid.
    hosts: Vec<&'a str>,
}

impl<'a> Request<'a> {
    /// Parses `head`, if it is complete and valid.
    pub(super) fn read(head: &'a [u8]) -> Option<Request<'a>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        if !parsed.parse(head).ok()?.is_complete() {
            return None;
        }
        let target = parsed.path?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        let hosts = hosts.map(|header| std::str::from_utf8(header.value).ok()).collect::<Option<_>>()?;
        Some(Request { is_get: parsed.method? == "GET", path, query, hosts })
    }

    /// Whether it names this machine as its host, once. Any port is valid: the request may come through a tunnel.
    pub(super) fn is_for_this_machine(&self) -> bool {
        let [host] = self.hosts[..] else { return false };
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)) && port.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The path after the secret, if the secret is correct.
    pub(super) fn behind(&self, secret: &str) -> Option<&'a str> {
        let (given, name) = self.path.strip_prefix('/')?.split_once('/')?;
        // Takes the same time for any wrong secret.
        let differs = given.bytes().zip(secret.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
        (given.len() == secret.len() && differs == 0).then_some(name)
    }
}

/// Parses `head` as the head of a request, runs all checks on it, and returns whether it is valid. Entry point for fuzzing.
pub fn read_any_request(head: &[u8]) -> bool {
    let Some(request) = Request::read(head) else { return false };
    let _ = (request.is_for_this_machine(), request.behind("5ec7e7"), request.query);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Option<Request<'_>> {
        Request::read(head.as_bytes())
    }

    #[test]
    fn one_host_that_is_this_machine_is_wanted() {
        let with = |hosts: &str| format!("GET / HTTP/1.1\r\n{hosts}\r\n");
        let is_right = |hosts: &str| request(&with(hosts)).is_some_and(|request| request.is_for_this_machine());
        for right in ["Host: 127.0.0.1:8080\r\n", "host: LOCALHOST:1\r\n", "HOST: localhost\r\n"] {
            assert!(is_right(right), "{right}");
        }
        let wrong = [
            "",
            "Host:\r\n",
            "Host: evil.example\r\n",
            "Host: 127.0.0.1.evil.example:80\r\n",
            "Host: evil.example:127.0.0.1\r\n",
            "Host: localhost:80:80\r\n",
            "Host: localhost:x\r\n",
            "Host: 127.0.0.1\r\nHost: evil.example\r\n",
            "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n",
            "X-Forwarded-Host: localhost\r\n",
        ];
        for wrong in wrong {
            assert!(!is_right(wrong), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_behind_the_secret_is_found() {
        let behind = |path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\n\r\n");
            let name = request(&head)?.behind("5ec7e7")?.to_owned();
            Some(name)
        };
        assert_eq!(behind("/5ec7e7/").as_deref(), Some(""));
        assert_eq!(behind("/5ec7e7/api/map?id=1").as_deref(), Some("api/map"));
        for wrong in ["/", "/5ec7e7", "/5ec7e8/", "/5ec7e/", "/5ec7e77/", "//5ec7e7/", "/x/5ec7e7/", "*", "5ec7e7/"] {
            assert_eq!(behind(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        for broken in
            ["", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET  HTTP/1.1\r\n\r\n"]
        {
            assert_eq!(request(broken), None, "{broken}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS + 1));
        assert_eq!(request(&many), None);
    }
}

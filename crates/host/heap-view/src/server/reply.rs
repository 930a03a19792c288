//! A reply, with its security headers.

use crate::pages::File;
use serde_json::{Value, json};

/// Allows scripts, styles and requests of this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    kind: &'static str,
    body: Vec<u8>,
}

impl Reply {
    /// A file of the page.
    pub(super) fn file(file: File) -> Reply {
        Reply { status: 200, kind: file.kind, body: file.content.as_bytes().to_vec() }
    }

    /// A JSON answer for the page's scripts.
    pub(super) fn answer(status: u16, answer: &Value) -> Reply {
        Reply { status, kind: "application/json", body: answer.to_string().into_bytes() }
    }

    /// An error with its cause.
    pub(super) fn error(status: u16, why: &str) -> Reply {
        Reply::answer(status, &json!({ "error": why }))
    }

    /// A refusal without a reason.
    pub(super) fn refusal(status: u16) -> Reply {
        Reply { status, kind: "text/plain; charset=utf-8", body: b"refused\n".to_vec() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Internal Server Error",
        };
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\n\
             Content-Type: {}\r\n\
             Content-Length: {}\r\n\
             Connection: close\r\n\
             Cache-Control: no-store\r\n\
             Content-Security-Policy: {POLICY}\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n\
             Referrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\n\
             X-Frame-Options: DENY\r\n",
            self.status,
            self.kind,
            self.body.len(),
        )
        .into_bytes();
        if self.status == 405 {
            bytes.extend_from_slice(b"Allow: GET\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

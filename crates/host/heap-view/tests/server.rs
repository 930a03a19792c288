//! The server as a stranger meets it, and as the page does.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod running;
mod support;

use remora_heap::{ObjectIx, RootKind};
use remora_heap_view::{Index, MOST_ROWS, View};
use running::Running;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{ARRAY, HOSTILE_NAME, KEY, LINK_NAME, TEXTS, bytes_of, chain, file_of, index_of, ring, shop, wide};

impl Running {
    /// `127.0.0.1:PORT` and the secret.
    fn parts(&self) -> (&str, &str) {
        let rest = self.address.strip_prefix("http://").unwrap().strip_suffix('/').unwrap();
        rest.split_once('/').unwrap()
    }

    /// What comes back for these bytes, to the end.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.parts().0).unwrap();
        stream.write_all(request).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    /// Status and reply for a path behind the secret.
    fn ask(&self, path: &str) -> (u16, String) {
        let (host, secret) = self.parts();
        parsed(&self.raw(format!("GET /{secret}/{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()))
    }

    fn answer(&self, question: &str) -> Value {
        let (status, body) = self.ask(&format!("api/{question}"));
        assert_eq!(status, 200, "{question}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

fn parsed(reply: &str) -> (u16, String) {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn who_does_not_know_the_secret_or_comes_by_another_name_is_refused() {
    let server = Running::shop();
    let (host, secret) = server.parts();
    assert!(
        host.starts_with("127.0.0.1:") && secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit())
    );
    let ask =
        |path: &str, host: &str| parsed(&server.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()));
    let refused = |status: u16| (status, "refused\n".to_owned());
    let right = format!("/{secret}/");
    assert_eq!(ask(&right, host).0, 200);
    let wrong = format!("/{}/api/about", "0".repeat(32));
    for path in
        ["/", "/favicon.ico", "/api/about", "//api/about", &wrong, &right[..right.len() - 1], &right.to_uppercase()]
    {
        assert_eq!(ask(path, host), refused(404), "{path}");
    }
    for name in ["evil.example", "127.0.0.1.evil.example", "0.0.0.0", "[::1]", "", "localhost, evil.example"] {
        assert_eq!(ask(&right, name), refused(403), "{name}");
    }
    assert_eq!(parsed(&server.raw(format!("GET {right} HTTP/1.1\r\n\r\n").as_bytes())), refused(403), "without a host");
    assert_eq!(ask(&right, "localhost:9000").0, 200, "through a tunnel");
    let other = Running::shop();
    assert_ne!(other.parts().1, secret, "each has a secret of its own");
}

#[test]
fn only_questions_are_answered() {
    let server = Running::shop();
    let (host, secret) = server.parts();
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "get"] {
        let reply = server.raw(format!("{method} /{secret}/api/about HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(parsed(&reply), (405, "refused\n".to_owned()), "{method}");
        assert!(reply.contains("\r\nAllow: GET\r\n"), "{reply}");
    }
    for path in [
        "../",
        "..%2f..%2fetc/passwd",
        "../../etc/passwd",
        "./style.css",
        "/etc/passwd",
        "STYLE.CSS",
        "api",
        "api/",
        "api/../about",
    ] {
        assert_eq!(server.ask(path).0, 404, "{path}");
    }
    for broken in [&b"\r\n\r\n"[..], b"GET\r\n\r\n", b"\xff\xfe\r\n\r\n", &[&[b'a'; 20 << 10][..]].concat()] {
        assert_eq!(parsed(&server.raw(broken)), (400, "refused\n".to_owned()));
    }
}

/// More bytes, one by one, than can be sent before a server hangs up that does.
const MOST_SENT: usize = 50_000_000;

/// Until the server hangs up: who is refused may not keep a connection by a byte now and then.
#[test]
fn who_is_refused_and_goes_on_sending_is_hung_up_on() {
    let server = Running::shop();
    let mut stream = TcpStream::connect(server.parts().0).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let sent = (0..MOST_SENT).take_while(|_| stream.write_all(b"x").is_ok()).count();
    assert!(sent < MOST_SENT, "it takes everything that comes");
}

/// More than are served at once.
const CROWD: usize = 100;

/// Whoever is met in the order in which they came.
#[test]
fn connections_that_ask_nothing_keep_nobody_out() {
    let server = Running::shop();
    let (host, secret) = server.parts();
    let mut silent: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(host).unwrap()).collect();
    silent.last_mut().unwrap().write_all(b"GET / HT").unwrap();
    assert_eq!(server.ask("api/about").0, 200);
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "who came first and asked nothing was closed");
    let late = silent.last_mut().unwrap();
    write!(late, "TP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut reply = String::new();
    late.read_to_string(&mut reply).unwrap();
    assert_eq!(parsed(&reply), (404, "refused\n".to_owned()), "who asks before its turn to go is answered");
    assert!(!reply.contains(secret));
}

#[test]
fn connections_that_stay_after_their_answer_keep_nobody_out() {
    let server = Running::shop();
    let answered = |_| {
        let mut stream = TcpStream::connect(server.parts().0).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        stream
    };
    let staying: Vec<TcpStream> = (0..CROWD).map(answered).collect();
    assert_eq!(server.ask("api/about").0, 200);
    drop(staying);
}

#[test]
fn a_path_and_the_referrers_name_the_fields() {
    let server = Running::shop();
    let fields = |rows: &Value| -> Vec<Option<String>> {
        rows.as_array().unwrap().iter().map(|row| row["field"].as_str().map(str::to_owned)).collect()
    };
    let name = |text: &str| Some(text.to_owned());
    // Its text, the first order, the array, the cache.
    let text = shop().object_at(TEXTS + 0x200).expect("it was added").0;
    let path = &server.answer(&format!("object?id={text}"))["path"]["objects"];
    assert_eq!(fields(path), [None, name("orders"), name("[2]"), name("text")]);
    let referrers = &server.answer(&format!("referrers?id={text}"))["rows"];
    assert_eq!(fields(referrers), [name("text")]);
    let array = shop().object_at(ARRAY).expect("it was added").0;
    let references = &server.answer(&format!("references?id={array}&from=2&count=2"))["rows"];
    assert_eq!(fields(references), [name("[2]"), name("[3]")]);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let server = Running::shop();
    let more = MOST_ROWS + 1;
    for question in [
        "children?count=-1",
        &format!("children?count={more}"),
        "types?count=18446744073709551616",
        "types?from=4294967296",
        "types?from=1e9",
        "types?sort=size",
        "types?turned=yes",
        "map?id=-1",
        "map?id=4294967296",
        "map?id=",
        "type?type=x",
        "search?text=%zz",
    ] {
        let (status, body) = server.ask(&format!("api/{question}"));
        assert!(status == 400 && body.contains("error"), "{question}: {status} {body}");
    }
    for unknown in
        ["map?id=208", "object?id=206", "object", "references?id=207", "type?type=7", "objects", "type", "else"]
    {
        assert_eq!(server.ask(&format!("api/{unknown}")).0, 404, "{unknown}");
    }
    let beyond = server.answer("children?from=4294967295&count=500");
    assert_eq!((&beyond["total"], beyond["rows"].as_array().unwrap().len()), (&Value::from(4), 0));
}

#[test]
fn every_reply_forbids_what_the_page_does_not_need() {
    let server = Running::shop();
    let (host, secret) = server.parts();
    for path in ["", "main.js", "style.css", "api/about", "nothing"] {
        let reply = server.raw(format!("GET /{secret}/{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        for header in [
            "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "frame-ancestors 'none'",
            "X-Content-Type-Options: nosniff",
            "Referrer-Policy: no-referrer",
            "Cache-Control: no-store",
            "Cross-Origin-Resource-Policy: same-origin",
        ] {
            assert!(reply.contains(header), "{path}: {header}");
        }
        assert!(!reply.to_lowercase().contains("access-control-allow"), "{path}");
    }
}

#[test]
fn the_map_tells_a_node_and_two_levels_below_it() {
    let server = Running::shop();
    let map = server.answer("map");
    let names: Vec<(&str, u64)> = map["boxes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tile| (tile["name"].as_str().unwrap(), tile["retained"].as_u64().unwrap()))
        .collect();
    assert_eq!(names, [("Shop.Cache", 17_742), ("what no root reaches", 130), (HOSTILE_NAME, 88), ("string", 22)]);
    assert_eq!(
        (&map["here"]["name"], &map["here"]["retained"], &map["cut"]),
        (&"all of the heap".into(), &17_982.into(), &false.into())
    );
    assert_eq!(map["boxes"][0]["inside"][0]["name"], "object[]");
    assert_eq!(map["rest"]["nodes"], 0);
    let array = server.answer(&format!("map?id={}", map["boxes"][0]["inside"][0]["id"]));
    assert_eq!(
        array["above"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["all of the heap", "Shop.Cache"]
    );
    assert_eq!((array["boxes"].as_array().unwrap().len(), &array["boxes"][0]["retained"]), (100, &268.into()));
}

#[test]
fn a_linked_list_ended_the_map_in_a_box_that_did_not_say_what_is_in_it() {
    let groups = |links: u64| {
        let server = Running::of(View::new(index_of(&chain(links)), "chain".into(), || Err("nobody makes one".into())));
        let first = server.answer("map")["boxes"][0].clone();
        assert_eq!((&first["inside"], &first["count"]), (&serde_json::json!([]), &(2 * links).into()));
        let groups = first["groups"].as_array().unwrap().iter();
        let of = |one: &Value, part: &str| one[part].as_f64().unwrap();
        let groups: Vec<_> =
            groups.map(|one| (one["name"].as_str().unwrap().to_owned(), of(one, "nodes"), of(one, "bytes"))).collect();
        (first["about"].as_bool().unwrap(), groups)
    };
    let all = [("byte[]".to_owned(), 1_000.0, 40_000.0), (LINK_NAME.to_owned(), 999.0, 31_968.0)];
    assert_eq!(groups(1_000), (false, all.to_vec()));
    // Of a long one, its beginning.
    let (about, groups) = groups(20_000);
    let names: Vec<&str> = groups.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!((about, names), (true, vec!["byte[]", LINK_NAME]));
    assert!((groups[0].2 / groups[1].2 - 1.25).abs() < 0.01, "{groups:?}");
}

#[test]
fn samples_stand_for_their_siblings_and_everything_below_them() {
    let server = Running::of(View::new(index_of(&wide(3_000)), "wide".into(), || Err("nobody makes one".into())));
    let first = server.answer("map")["boxes"][0].clone();
    // Each order is too small for a box, and has a text.
    assert_eq!((&first["inside"], &first["about"]), (&serde_json::json!([]), &true.into()));
    let nodes: Vec<(&str, u64)> = first["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["nodes"].as_f64().unwrap().round() as u64))
        .collect();
    assert_eq!(nodes, [("byte[]", 3_000), (LINK_NAME, 3_000)]);
}

#[test]
fn lists_longer_than_the_map_are_reported_as_a_rest_and_long_paths_are_cut() {
    let mut graph = ring(3_000);
    graph.note_root(ObjectIx(0), RootKind::Handle, "as <b>was</b> said".to_owned());
    let server = Running::of(View::new(index_of(&graph), "ring".into(), || Err("nobody makes one".into())));
    let last = server.answer("object?id=2999");
    let path = &last["path"];
    let reported = path["objects"].as_array().unwrap().len() as u64;
    assert_eq!((&path["roots"][0]["kind"], &path["objects"][0]["id"]), (&"handle".into(), &0.into()));
    assert_eq!(path["roots"][0]["note"], "as <b>was</b> said");
    assert_eq!(server.answer("about")["about"]["root_notes"], serde_json::json!({}), "not told with everything");
    assert_eq!(path["objects"][reported as usize - 1]["id"], 2999);
    assert_eq!(path["hidden"].as_u64().unwrap() + reported, 3_000);
    assert_eq!((&last["cut"], &last["above"][0]["name"]), (&true.into(), &"all of the heap".into()));
    assert!(last["above"].as_array().unwrap().len() <= 25);
}

#[test]
fn types_are_sorted_filtered_and_paged() {
    let server = Running::shop();
    let names = |question: &str| -> Vec<String> {
        let reported = server.answer(question);
        reported["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("types?count=3"), ["Shop.Cache", "object[]", "Shop.Order"]);
    assert_eq!(names("types?count=2&from=1"), ["object[]", "Shop.Order"]);
    assert_eq!(names("types?sort=count&count=2"), ["string", "Shop.Order"]);
    assert_eq!(names("types?sort=own&turned=1&count=1"), ["Shop.Cache"]);
    assert_eq!(names("types?sort=name&filter=SHOP.O"), ["Shop.Order", "Shop.Orphan"]);
    assert_eq!(names("types?filter=unused"), Vec::<String>::new(), "types without objects are not shown");
    let order = server.answer("search?text=Shop.Order")["types"]["rows"][0].clone();
    assert_eq!((&order["count"], &order["own"], &order["retained"]), (&100.into(), &4_800.into(), &16_878.into()));
    let greatest = server.answer(&format!("objects?type={}&count=1", order["type"]));
    assert_eq!((&greatest["total"], &greatest["rows"][0]["address"]), (&100.into(), &"0x48c0".into()));
}

#[test]
fn types_that_refer_to_a_type_are_those_of_all_of_its_objects() {
    let server = Running::shop();
    let referring = |name: &str| {
        let known = server.answer(&format!("search?text={name}"))["types"]["rows"][0].clone();
        let told = server.answer(&format!("referring?type={}", known["type"]));
        assert_eq!((&told["more"], &told["cut"]), (&0.into(), &false.into()));
        let rows = told["rows"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["name"].as_str().unwrap(), row["references"])).collect::<Vec<_>>()
    };
    assert_eq!(referring("Shop.Order"), ["object[] 100"]);
    assert_eq!(referring("Shop.Cache"), [] as [String; 0]);
}

#[test]
fn objects_are_found_by_address_and_reported_with_why_they_are_alive() {
    let server = Running::shop();
    let found = server.answer("search?text=@0x10100");
    assert_eq!((&found["object"]["name"], &found["note"]), (&"string".into(), &Value::Null));
    let reported = server.answer(&format!("object?id={}", found["object"]["id"]));
    let path: Vec<&str> =
        reported["path"]["objects"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(
        (path, &reported["path"]["roots"]),
        (
            vec!["Shop.Cache", "object[]", "Shop.Order", "string"],
            &serde_json::json!([{ "kind": "static", "note": "Shop.Cache.instance" }])
        )
    );
    let held = server.answer("search?text=cache.INST")["held"].clone();
    assert_eq!((held.as_array().unwrap().len(), &held[0]["address"]), (1, &"0x1000".into()), "{held}");
    assert_eq!(server.answer("search?text=cache.instances")["held"], serde_json::json!([]));
    for text in ["0x10100", "@65792", "@10100"] {
        assert_eq!(server.answer(&format!("search?text={text}"))["object"], found["object"], "{text}");
    }
    let within = server.answer("search?text=%402337");
    assert!(within["note"].as_str().unwrap().contains("no object begins at 0x2337"), "{within}");
    assert_eq!(within["object"]["name"], "object[]");
    for (text, note) in
        [("@0x1", "there is no object at 0x1"), ("@x", "@x is no address"), ("@0x2338", "there is no object at 0x2338")]
    {
        assert!(server.answer(&format!("search?text={text}"))["note"].as_str().unwrap().contains(note), "{text}");
    }
    let orphan = server.answer("object?id=204");
    assert_eq!((&orphan["path"], &orphan["above"][1]["name"]), (&Value::Null, &"what no root reaches".into()));
}

#[test]
fn an_index_that_turns_out_to_be_damaged_is_made_anew_once() {
    let (file, made) = (file_of(&bytes_of(&shop())), Arc::new(AtomicUsize::new(0)));
    let index = Index::open(file.try_clone().unwrap(), KEY).unwrap();
    let count = Arc::clone(&made);
    let server = Running::of(View::new(index, "shop".into(), move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(index_of(&shop()))
    }));
    assert_eq!((server.answer("map")["here"]["retained"].as_u64(), made.load(Ordering::Relaxed)), (Some(17_982), 0));
    file.write_all_at(&[0xff; 64], 1_000).unwrap();
    for _ in 0..3 {
        assert_eq!(
            (server.answer("map")["here"]["retained"].as_u64(), made.load(Ordering::Relaxed)),
            (Some(17_982), 1)
        );
    }
}

#[test]
fn an_index_that_cannot_be_made_anew_is_reported() {
    let file = file_of(&bytes_of(&shop()));
    let index = Index::open(file.try_clone().unwrap(), KEY).unwrap();
    let server = Running::of(View::new(index, "shop".into(), || Err("the snapshot has gone".into())));
    file.set_len(100).unwrap();
    let (status, body) = server.ask("api/map");
    assert!(status == 500 && body.contains("the snapshot has gone"), "{status} {body}");
}

//! The page in a real browser: opened from the server, clicked with a mouse, typed into.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "../../../crates/host/heap-view/tests/running/mod.rs"]
mod running;
#[path = "../../../crates/host/heap-view/tests/support/mod.rs"]
mod support;

use remora_browser::Browser;
use remora_heap_view::{About, View};
use running::Running;
use serde_json::json;
use support::{HEBREW, HOSTILE_NAME, KEY, LINK_NAME, about, bytes_with, chain, index_of, opened, ring, shop};

const ENTER: &str = "\u{E007}";
const BACKSPACE: &str = "\u{E003}";
const ARROW_RIGHT: &str = "\u{E014}";
const ARROW_DOWN: &str = "\u{E015}";

/// The way up, the names and sizes of the outer boxes, the rows of a table, the details' heading and facts; narrow spaces as plain ones.
const CRUMBS: &str = "[...document.querySelectorAll('#crumbs li')].map((crumb) => crumb.textContent).join(' > ')";
const BOXES: &str =
    "[...document.querySelectorAll('.box:not(.inner)')].map((box) => box.getAttribute('aria-label')).join('; ')";
const TYPES: &str = "[...document.querySelectorAll('#types tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join(' | ')).join('; ')";
const HEADING: &str = "document.getElementById('details-title')?.textContent ?? 'nothing'";
const FACTS: &str = "[...document.querySelectorAll('#details dd')].map((fact) => fact.textContent).join('; ')";
const PATH: &str = "document.querySelector('#details .path').textContent";
const TREE: &str = "[...document.querySelectorAll('#tree tbody tr')].map((row) => row.getAttribute('aria-level') + ' ' + (row.querySelector('bdi, .virtual')?.textContent ?? row.textContent)).join('; ')";

/// The page, when everything has been asked and answered.
struct Page {
    browser: Browser,
    _server: Running,
}

impl Page {
    fn open(server: Running) -> Page {
        let browser = Browser::open_url(&server.address);
        let page = Page { browser, _server: server };
        page.rests();
        page
    }

    /// Waits until no question is open.
    fn rests(&self) {
        assert_eq!(self.browser.run("return window.remora.idle()"), true);
    }

    fn text(&self, what: &str) -> String {
        self.browser.text(&format!("return ({what}).replaceAll('\\u202f', ' ')"))
    }

    /// Does what leads elsewhere without a click, and waits until the page is there.
    fn leads(&self, script: &str) {
        self.browser.run(&format!(
            "return new Promise((resolve) => {{ addEventListener('hashchange', () => resolve(true), {{ once: true }}); {script} }})"
        ));
        self.rests();
    }

    fn click(&self, selector: &str) {
        self.browser.click(selector);
        self.rests();
    }

    fn keys(&self, keys: &str) {
        self.browser.keys(keys);
        self.rests();
    }

    /// A click of the mouse on the heading of the box that is called so.
    fn click_box(&self, name: &str) {
        let at = self.browser.run(&format!(
            "const box = [...document.querySelectorAll('.box')].find((box) => box.getAttribute('aria-label').startsWith('{name}'));
             const at = box.getBoundingClientRect(); return [at.left + 12, at.top + 6]"
        ));
        self.browser.click_at(at[0].as_f64().unwrap(), at[1].as_f64().unwrap());
        self.rests();
    }

    fn has_no_complaints(&self) {
        let complaints = self.browser.complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

#[test]
fn the_first_view_says_what_there_is_and_what_is_missing() {
    let page = Page::open(Running::shop());
    assert_eq!(page.text("document.getElementById('title').textContent"), "Shop (4711)");
    assert_eq!(
        page.text("[...document.querySelectorAll('#tiles dd')].map((tile) => tile.textContent).join('; ')"),
        "17.6 KiB; 206; 204; 6; 2.00 KiB"
    );
    assert!(page.text("document.getElementById('incomplete').textContent").starts_with("NOT all of the heap"));
    assert_eq!(page.browser.run("return document.getElementById('incomplete').hidden"), false);
    assert!(page.text("document.getElementById('facts').textContent").ends_with("roots: 1 static, 1 inferred"));
    assert_eq!(page.browser.run("return document.getElementById('inferred').hidden"), true, "nothing is wrong with it");
    assert!(page.text("document.getElementById('notes').textContent").contains("3 ranges <b>of the heap</b> were not"));
    assert_ne!(page.text("document.documentElement.dataset.drawn"), "");
    page.has_no_complaints();
}

#[test]
fn the_details_begin_with_the_largest_suspect_and_the_findings_lead_to_their_objects() {
    let graph = shop();
    let address = |object| graph.address(remora_heap::ObjectIx(object));
    let none = json!({ "types": [] });
    let found = json!({
        "suspects": [{
            "holders": 1, "holder": { "address": address(0), "type": "Shop", "held_by": "static Shop.all" },
            "retained": 9_000, "retained_count": 100, "path": [], "event": "Shop.Changed",
            "place": { "address": address(0), "type": "Shop", "held_by": null },
            "accumulates": { "type": HOSTILE_NAME, "count": 99, "bytes": 5, "retained": 10 }, "referred_from": [],
        }],
        "findings": {
            "subscriptions": { "subscribers": [{
                "publisher": "Shop", "events": ["Changed"], "delegate": "D", "subscriber": "Shop.Order",
                "count": 12, "retained": 1024, "example": address(102),
            }] },
            "collections": none, "empty_arrays": none, "tasks": none, "timers": none, "finalizers": none,
        },
    });
    let index = opened(&bytes_with(&graph, About { found, ..about() }), KEY).unwrap();
    let page = Page::open(Running::of(View::new(index, "shop".into(), || Err("nobody makes one".into()))));
    let shown = page.text("document.getElementById('found-panel').textContent");
    for part in ["Held bystatic Shop.all", "EventShop.Changed", "99 × ", "Shop.OrderShop.Changed@0x"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown_address = |object| format!("@{:#x};", address(object));
    assert!(page.text(FACTS).starts_with(&shown_address(0)), "{}", page.text(FACTS));
    page.click("#found-panel td .link");
    assert!(page.text(FACTS).starts_with(&shown_address(102)), "{}", page.text(FACTS));
    for width in [420, 1280] {
        page.browser.resize(width, 800);
        let outside = "return [document.documentElement.scrollWidth - document.documentElement.clientWidth,
            [...document.querySelectorAll('.address')].filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).length]";
        assert_eq!(page.browser.run(outside), json!([0, 0]), "{width}: nothing is outside, and no address is cut off");
    }
    page.has_no_complaints();
}

#[test]
fn a_suspect_without_a_root_says_what_may_hold_it_and_a_long_table_how_much_more_there_is() {
    let graph = shop();
    let address = |object| graph.address(remora_heap::ObjectIx(object));
    let none = json!({ "types": [] });
    let subscriber = json!({
        "publisher": "Shop", "events": ["Changed"], "delegate": "D", "subscriber": "Shop.Order",
        "count": 12, "retained": 1024, "example": address(102),
    });
    let found = json!({
        "suspects": [{
            "holders": 1, "holder": { "address": address(0), "type": "Shop", "held_by": null },
            "probably_held_by": "a local variable or a handle", "name_it_by": "remora heap -p 7 --roots",
            "retained": 9_000, "retained_count": 100, "path": [], "event": null,
            "place": null, "accumulates": null, "referred_from": [],
        }],
        "findings": {
            "subscriptions": { "subscribers": vec![subscriber; 53] },
            "collections": none, "empty_arrays": none, "tasks": none, "timers": none, "finalizers": none,
        },
    });
    let index = opened(&bytes_with(&graph, About { found, ..about() }), KEY).unwrap();
    let page = Page::open(Running::of(View::new(index, "shop".into(), || Err("nobody makes one".into()))));
    let shown = page.text("document.getElementById('found-panel').textContent");
    for part in ["Held bya local variable or a handle", "Name it byremora heap -p 7 --roots", "3 more in the report"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    page.has_no_complaints();
}

#[test]
fn a_snapshot_with_garbage_says_so() {
    let about = About { has_garbage: true, complete: true, ..about() };
    let index = opened(&bytes_with(&shop(), about), KEY).unwrap();
    let page = Page::open(Running::of(View::new(index, "shop".into(), || Err("nobody makes one".into()))));
    assert!(
        page.text("document.getElementById('inferred').textContent").starts_with("No collection was made: garbage is")
    );
    assert_eq!(page.browser.run("return document.getElementById('incomplete').hidden"), true);
    assert!(page.text("document.getElementById('tiles').textContent").ends_with("Garbageincluded"));
    page.leads("location.hash = 'show=object.202'");
    assert!(page.text(PATH).contains("inferrednobody has seen a root here"), "{}", page.text(PATH));
    page.has_no_complaints();
}

#[test]
fn a_click_into_the_treemap_goes_down_and_crumbs_and_keys_lead_up() {
    let page = Page::open(Running::shop());
    assert_eq!(page.text(CRUMBS), "all of the heap");
    let boxes = page.text(BOXES);
    assert!(
        boxes.starts_with("Shop.Cache, 17.3 KiB in 201 objects; what no root reaches, 130 B in 2 objects; "),
        "{boxes}"
    );
    page.click_box("object[],");
    assert_eq!(page.text(CRUMBS), "all of the heap > Cache > object[]");
    assert_eq!(page.text(HEADING), "object[]");
    assert_eq!(page.text(FACTS), "@0x2000; object[]; Shop; 824 B; 17.3 KiB in 200 objects (98.4 % of the heap)");
    assert!(page.text(BOXES).starts_with("Shop.Order, 268 B in 2 objects; Shop.Order, 266 B in 2 objects; "));
    page.click("#crumbs li:nth-child(2) button");
    assert_eq!((page.text(CRUMBS).as_str(), page.text(HEADING).as_str()), ("all of the heap > Cache", "Shop.Cache"));
    page.click_box("object[],");
    page.browser.run("document.querySelector('.box').focus()");
    page.keys(BACKSPACE);
    assert_eq!(page.text(CRUMBS), "all of the heap > Cache");
    page.keys(BACKSPACE);
    assert_eq!(page.text(CRUMBS), "all of the heap");
    page.keys(ENTER);
    assert_eq!(page.text(CRUMBS), "all of the heap > Cache", "the first box has the focus");
    page.leads("history.back()");
    page.browser.run("document.querySelector('.box').focus()");
    page.keys(ARROW_RIGHT);
    page.keys(ARROW_DOWN);
    let focused = page.text("document.activeElement.getAttribute('aria-label') ?? 'none'");
    assert!(!focused.starts_with("Shop.Cache,") && focused.contains(" object"), "{focused}");
    page.has_no_complaints();
}

#[test]
fn a_type_an_object_and_its_neighbours_are_reported_with_the_right_numbers() {
    let page = Page::open(Running::shop());
    let rows = page.text(TYPES);
    assert!(rows.starts_with("Shop.Cache | 1 | 40 B | 17.3 KiB; object[] | 1 | 824 B | 17.3 KiB; Shop.Order | 100 | 4.69 KiB | 16.5 KiB; "), "{rows}");
    page.click("#types tbody tr:nth-child(3) button");
    assert_eq!(
        (page.text(HEADING).as_str(), page.text(FACTS).as_str()),
        ("Shop.Order", "Shop; 100; 4.69 KiB; 16.5 KiB (93.9 % of the heap)")
    );
    let referring =
        "[...document.querySelectorAll('#details .referring tbody tr')].map((row) => row.textContent).join('; ')";
    assert_eq!(page.text(referring), "object[]100");
    let rows = "String(document.querySelectorAll('#details section:last-child tbody tr').length)";
    assert_eq!(page.text(rows), "51", "a page, and a button for more");
    page.click("#details .more button");
    assert_eq!(page.text(rows), "100");
    let last = page.text("document.querySelector('#details section:last-child tbody tr:last-child').textContent");
    assert_eq!(last, "Order@0x300048 B48 B", "the one whose text is not its own");
    page.click("#details section:last-child tbody tr:nth-child(1) button");
    assert_eq!(page.text(FACTS), "@0x48c0; Shop.Order; Shop; 48 B; 268 B in 2 objects (1.5 % of the heap)");
    assert_eq!(
        page.text(PATH),
        "Why it is aliveheld by a root: static, Shop.Cache.instanceCache@0x1000static Cache.instance17.3 KiBvia ordersobject[]@0x200017.3 KiBvia [99]Order@0x48c0268 B"
    );
    let neighbours = page.text(
        "[...document.querySelectorAll('#details section:not(.path)')].map((part) => part.textContent).join('; ')",
    );
    assert_eq!(
        neighbours,
        "Referred to by 1ObjectOwnRetainedobject[]@0x2000via [99]824 B17.3 KiB; Refers to 1ObjectOwnRetainedstring@0x16300via text220 B220 B"
    );
    page.click("#details section:last-child tbody button");
    assert_eq!(page.text(HEADING), "string");
    page.has_no_complaints();
}

#[test]
fn a_search_finds_types_and_addresses() {
    let page = Page::open(Running::shop());
    page.keys("/");
    page.keys("shop.o");
    let offered = "[...document.querySelectorAll('#found li')].map((offer) => offer.textContent).join('; ')";
    assert_eq!(page.text(offered), "Shop.Order100 objects; Shop.Orphan1 object");
    page.keys(ARROW_DOWN);
    page.keys(ENTER);
    assert_eq!(page.text(HEADING), "Shop.Order");
    for (text, heading) in [("@0x50000", "Shop.Orphan"), ("@2010", "object[]")] {
        page.browser.run("document.getElementById('search').value = ''; document.getElementById('search').focus()");
        page.keys(text);
        page.keys(ENTER);
        assert_eq!(page.text(HEADING), heading, "{text}");
    }
    page.browser.run("document.getElementById('search').value = ''; document.getElementById('search').focus()");
    page.keys("INSTANCE");
    assert_eq!(page.text(offered), "static Shop.Cache.instance17.3 KiB");
    page.keys(ENTER);
    assert_eq!(page.text(HEADING), "Shop.Cache");
    page.browser.run("document.getElementById('search').value = ''; document.getElementById('search').focus()");
    page.keys("@2010");
    page.click("#search");
    page.keys("ffff");
    assert!(page.text("document.getElementById('found').textContent").contains("there is no object at 0x2010ffff"));
    page.leads("location.hash = 'show=object.204'");
    assert!(page.text(PATH).contains("No root reaches it"));
    page.has_no_complaints();
}

#[test]
fn the_tree_opens_row_by_row_and_the_table_is_sorted_and_filtered() {
    let page = Page::open(Running::shop());
    page.click("#tree-title");
    assert!(
        page.text(TREE).starts_with("1 all of the heap; 2 Cache; 2 what no root reaches; 2 "),
        "{}",
        page.text(TREE)
    );
    assert!(
        page.text("document.querySelector('#tree tbody tr:nth-child(2)').textContent")
            .contains("static Cache.instance")
    );
    page.click("#tree tbody tr:nth-child(2) .toggle");
    page.click("#tree tbody tr:nth-child(3) .toggle");
    let tree = page.text(TREE);
    assert!(
        tree.starts_with("1 all of the heap; 2 Cache; 3 object[]; 4 Order; 4 Order; ")
            && tree.contains("4 70 more…; 2 what no root"),
        "{tree}"
    );
    page.browser.run("document.querySelector('#tree tbody tr:nth-child(2) button').focus()");
    page.keys("\u{E012}");
    assert!(page.text(TREE).starts_with("1 all of the heap; 2 Cache; 2 what no root reaches; "), "{}", page.text(TREE));
    page.click("#types-title");
    page.click("#types th:nth-child(2) button");
    assert!(page.text(TYPES).starts_with("string | 101 | "), "{}", page.text(TYPES));
    page.click("#types th:nth-child(2) button");
    assert_eq!(page.text("document.querySelector('th[aria-sort=ascending]').textContent"), "Objects");
    page.click("#filter");
    page.keys("ORPH");
    assert_eq!(page.text(TYPES), "Shop.Orphan | 1 | 100 B | 130 B");
    page.has_no_complaints();
}

#[test]
fn names_from_a_snapshot_are_only_ever_text() {
    let page = Page::open(Running::shop());
    page.keys("/");
    page.keys("evil");
    page.keys(ENTER);
    let plain = HOSTILE_NAME.replace(['\u{202e}', '\n'], "\u{fffd}");
    assert_eq!(page.text(HEADING), plain);
    page.click("#details section:last-child tbody tr:nth-child(1) button");
    assert!(page.text(PATH).contains("held by a root: inferrednobody has seen this root"), "{}", page.text(PATH));
    page.click("#details p > button");
    assert!(page.text(CRUMBS).starts_with("all of the heap > "));
    page.click("#tree-title");
    assert_eq!(
        page.browser.run("return [window.hurt === undefined, document.images.length, document.scripts.length]"),
        serde_json::json!([true, 0, 1])
    );
    assert_eq!(page.browser.run("return performance.getEntriesByType('resource').filter((entry) => !entry.name.startsWith(location.origin)).length"), 0);
    page.has_no_complaints();
}

#[test]
fn what_the_map_leaves_out_is_counted_and_what_it_cannot_show_has_a_reason() {
    let page = Page::open(Running::shop());
    let fillers = page.text("[...document.querySelectorAll('.filler')].map((filler) => filler.title).join('; ')");
    assert!(fillers.contains("itself 824 B") && !fillers.contains("0 ×"), "{fillers}");
    // Texts have no room for boxes of their own. What is drawn always says what it is.
    assert!(!fillers.split("; ").any(str::is_empty), "{fillers}");
    let button = "[...document.querySelectorAll('#details p > button')].map((button) => button.disabled + button.parentElement.textContent).join()";
    page.leads("location.hash = 'show=object.0'");
    assert_eq!(page.text(button), "falseShow in the map");
    // A text.
    page.leads("location.hash = 'show=object.102'");
    assert_eq!(page.text(button), "trueShow in the map the map shows what an object keeps: this one keeps no other");
    page.has_no_complaints();
}

#[test]
fn the_map_of_a_linked_list_says_what_is_in_it() {
    let view = View::new(index_of(&chain(1_000)), "chain".into(), || Err("nobody makes one".into()));
    let page = Page::open(Running::of(view));
    let fillers = "[...document.querySelectorAll('.filler')].map((filler) => filler.title).join('; ')";
    let link = LINK_NAME.trim_start_matches("Shop.");
    let below = format!("1,000 × byte[] 39.1 KiB; 999 × \u{2066}{link}\u{2069} 31.2 KiB");
    assert_eq!(page.text(fillers), below);
    page.browser.run("document.querySelector('.box').click()");
    page.rests();
    let next = below.replace("999", "998").replace("1,000", "999").replace("39.1", "39.0");
    assert_eq!(page.text(fillers), next);
    page.has_no_complaints();
}

#[test]
fn texts_have_contrast_in_light_and_dark_and_a_tap_goes_down() {
    let page = Page::open(Running::shop());
    for scheme in ["light", "dark"] {
        page.browser.prefer(scheme);
        assert_eq!(page.browser.faint_texts(), json!([]), "{scheme}");
    }
    let at = page
        .browser
        .run("const at = document.querySelector('.box').getBoundingClientRect(); return [at.left + 12, at.top + 6]");
    page.browser.tap_at(at[0].as_f64().unwrap(), at[1].as_f64().unwrap());
    page.rests();
    assert_eq!((page.text(CRUMBS).as_str(), page.text(HEADING).as_str()), ("all of the heap > Cache", "Shop.Cache"));
}

#[test]
fn names_from_right_to_left_reorder_nothing() {
    let about = About { application: HEBREW.into(), ..about() };
    let index = opened(&bytes_with(&chain(10), about), KEY).unwrap();
    let page = Page::open(Running::of(View::new(index, "chain".into(), || Err("nobody makes one".into()))));
    assert_eq!(page.text("document.getElementById('title').textContent"), format!("\u{2066}{HEBREW}\u{2069} (4711)"));
    page.leads("location.hash = 'map=0&show=object.2'");
    // In every text with letters of both directions, what follows a name is to the right of it.
    let wrong = page.browser.run(
        "const left = (node, at) => { const range = document.createRange(); range.setStart(node, at); range.setEnd(node, at + 1); return range.getBoundingClientRect().left; };
         const wrong = []; let checked = 0;
         for (const one of document.querySelectorAll('h1, .filler, .box .held, #crumbs li, #details .link, #details p, #tree td')) {
             const letters = []; const walk = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
             while (walk.nextNode()) [...walk.currentNode.data].forEach((text, at) => { if (/[^\\s\\u2066-\\u2069.]/.test(text)) letters.push({ text, x: left(walk.currentNode, at) }); });
             const last = letters.findLastIndex(({ text }) => /[\\u0590-\\u05ff]/.test(text));
             if (last < 0 || one.clientWidth === 0) continue;
             checked++;
             if (letters.slice(last + 1).some(({ x }) => x < letters[last].x)) wrong.push(one.textContent);
         }
         return [checked > 3, wrong]",
    );
    assert_eq!(wrong, json!([true, []]));
}

#[test]
fn short_names_keep_what_tells_one_from_another() {
    let page = Page::open(Running::shop());
    for (whole, short) in [
        ("string", "string"),
        ("System.Collections.Generic.Dictionary<string, App.Order>.Entry[]", "Dictionary<string, Order>.Entry[]"),
        ("(int, App.Order)[,]", "(int, Order)[,]"),
        ("App.Program.<>c__DisplayClass0_0", "Program.<>c__DisplayClass0_0"),
        (
            "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<App.Money>.AsyncStateMachineBox<App.Shop.Program.WaitForPayment.StateMachine>",
            "AsyncTaskMethodBuilder<Money>.AsyncStateMachineBox<Program.WaitForPayment.StateMachine>",
        ),
        ("App.Shop.Program.Main.lambda#1.StateMachine<int>", "Program.Main.lambda#1.StateMachine<int>"),
        ("Main.StateMachine", "Main.StateMachine"),
        ("App.", "App."),
    ] {
        let script = format!("return import(new URL('text.js', location.href)).then((text) => text.short({whole:?}))");
        assert_eq!(page.browser.run(&script), short, "{whole}");
    }
    page.has_no_complaints();
}

#[test]
fn a_long_way_is_shown_by_its_ends_and_a_server_that_has_gone_is_reported() {
    let view = View::new(index_of(&ring(3_000)), "ring".into(), || Err("nobody makes one".into()));
    let page = Page::open(Running::of(view));
    page.leads("location.hash = 'map=2999&show=object.2999'");
    assert!(page.text(CRUMBS).starts_with("all of the heap > … > "), "{}", page.text(CRUMBS));
    assert!(
        page.text(PATH).contains("held by a root: handle") && page.text(PATH).contains(" others"),
        "{}",
        page.text(PATH)
    );
    page.has_no_complaints();
    let Page { browser, _server: server } = page;
    drop(server);
    browser.run("location.hash = 'show=object.5'");
    let shown = "const failure = document.getElementById('failure');
        return new Promise((resolve) => { const look = () => failure.hidden ? requestAnimationFrame(look) : resolve(true); look(); })";
    assert_eq!(browser.run(shown), true);
    assert!(
        browser
            .text("return document.getElementById('failure').textContent")
            .contains("has `remora heap view` been ended?")
    );
}

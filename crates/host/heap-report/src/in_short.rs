//! The answer of a report in one line: what accumulates, and where.

use crate::roots;
use crate::static_paths::static_paths;
use crate::suspects::{Suspects, object};
use remora_heap::suspects::Suspect;
use remora_heap::{ObjectIx, RootKind};
use remora_terminal::{grouped, percent};
use std::collections::HashSet;

/// Maximum answers.
pub(crate) const MOST: usize = 3;

impl Suspects<'_> {
    /// For each of the largest: `2,667 × App.UserContext by event App.Watcher.Changed (71.5%)`.
    pub(crate) fn in_short(&self) -> Vec<String> {
        self.all.iter().take(MOST).map(|suspect| self.shortly(suspect)).collect()
    }

    fn shortly(&self, suspect: &Suspect) -> String {
        let part = |retained| percent(retained, self.tree.retained(self.tree.root()));
        // One large object, or a small part of many, does not accumulate.
        let content = suspect.content.filter(|content| content.count > 1 && content.retained >= suspect.retained / 2);
        if let Some(content) = content {
            let of = self.graph.shown_type(content.of);
            let place = self.place_of(suspect).unwrap_or_default();
            return format!("{} × {of}{place} ({})", grouped(content.count), part(content.retained));
        }
        let place = self.field_of(suspect).map(|field| format!(" in {field}")).unwrap_or_default();
        let holder = match suspect.holders[..] {
            [one] => object(self.graph, one),
            [first, ..] => {
                format!("{} × {}", grouped(suspect.holders.len() as u64), self.graph.shown_type_of(first))
            }
            [] => String::new(),
        };
        format!("{holder}{place} ({})", part(suspect.retained))
    }

    /// ` by event App.Watcher.Changed`, ` in static App.Cache.Entries`, ` in App.Cache`.
    fn place_of(&self, suspect: &Suspect) -> Option<String> {
        let place = suspect.place(self.graph);
        if let Some(event) = place.and_then(|place| self.event(suspect, place)) {
            return Some(format!(" by event {}", event.strip_prefix("static ").unwrap_or(&event)));
        }
        if let Some(field) = self.field_of(suspect) {
            return Some(format!(" in {field}"));
        }
        let only = || suspect.holders.first().copied().filter(|_| suspect.holders.len() == 1);
        Some(format!(" in {}", self.graph.shown_type_of(place.or(suspect.array).or_else(only)?)))
    }

    /// The static field that holds the only holder or the array: `static App.Cache.Entries`.
    fn field_of(&self, suspect: &Suspect) -> Option<String> {
        let held: ObjectIx = match suspect.holders[..] {
            [one] => one,
            _ => suspect.array?,
        };
        if self.graph.roots_of(held).any(|kind| kind == RootKind::Static) {
            return roots::static_field(self.graph, held);
        }
        static_paths(self.graph, &HashSet::from([held])).remove(&held).map(|path| path.root)
    }
}

#[cfg(test)]
mod tests {
    use crate::suspects::{Suspects, find};
    use remora_heap::findings::Subscriptions;
    use remora_heap::{ArrayFacts, Builder, DominatorTree, Object, ObjectIx, Place, RootKind, TypeFacts, TypeIx};
    use remora_heap::{Type, TypeFlags};
    use remora_heap_file::State;

    #[test]
    fn the_answer_says_how_many_of_what_are_where() {
        let mut builder = Builder::new();
        for (name, assembly) in [
            ("System.Collections.Generic.List<Quote>", "System.Private.CoreLib"),
            ("App.Quote[]", "App"),
            ("App.Quote", "App"),
            ("App.Image", "App"),
        ] {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: assembly.into(), flags }).expect("room");
        }
        let array = Some(ArrayFacts { rank: 1, element: None, place: Place::Reference });
        builder.describe_type(TypeIx(1), TypeFacts { array, ..TypeFacts::default() }).expect("room");
        let mut add = |address, of, bytes, references: &[u64]| {
            let object = Object { address, type_ix: TypeIx(of), bytes };
            builder.add_object(object, references.iter().copied()).expect("room");
        };
        let quotes: Vec<u64> = (0..100).map(|place| 0x3000 + place * 0x100).collect();
        add(0x1000, 0, 32, &[0x2000]);
        add(0x2000, 1, 824, &quotes);
        quotes.iter().for_each(|quote| add(*quote, 2, 200, &[]));
        add(0x100_000, 3, 10_000, &[]);
        builder.add_root(0x1000, RootKind::Static).expect("room");
        builder.add_root(0x100_000, RootKind::Handle).expect("room");
        let mut graph = builder.finish().expect("room");
        graph.note_root(ObjectIx(0), RootKind::Static, "App.QuoteCache.Entries".to_owned());
        let tree = DominatorTree::new(&graph);
        let (state, subscriptions, all) = (State::default(), Subscriptions::default(), find(&graph, &tree));
        let suspects = Suspects { graph: &graph, tree: &tree, state: &state, subscriptions: &subscriptions, all: &all };
        let expected = ["100 × App.Quote in static App.QuoteCache.Entries (64.8%)", "App.Image (at 0x100000) (32.4%)"];
        assert_eq!(suspects.in_short(), expected);
    }
}

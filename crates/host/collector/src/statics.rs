//! Static fields: metadata lists them, and the forked copy locates them after its heap walk.
//!
//! A question names a type by one of its methods. The runtime knows that method only if the class is loaded: no question loads a class. A
//! type without methods is asked about by its class, if it has objects.
//!
//! Instantiations of a generic type have static fields of their own, and the runtime reports none of them. It answers that the class is not
//! initialized, because it checks the definition instead (`GetAppDomainStaticAddress` in `vm/proftoeeinterfaceimpl.cpp`; seen on 3.1, 8, 9
//! and 10). So there are no questions about these.

use crate::names::Names;
use crate::shared_memory::SharedMemory;
use remora_heap_stream::statics::{Answer, Asked, Owner, Place, answer, question};
use remora_heap_stream::{ClassFacts, Foreign, Malformed};
use remora_symbols::{ManagedImage, StaticFields};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Maximum number of answers: no honest copy has more.
const MOST_ANSWERS: usize = 1 << 20;

/// The runtime's answer for an uninitialized class (`CORPROF_E_DATAINCOMPLETE` in `inc/corerror.xml`): its fields are still empty.
const NOT_INITIALIZED: u32 = 0x8013_1351;

/// A field that the copy has located.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticAnswer {
    /// Index of the module that defines its class.
    pub(crate) module: u32,
    /// Token of the class there.
    pub(crate) type_token: u32,
    /// Number of the class, if it was asked about by class.
    pub(crate) class: Option<u32>,
    /// mdFieldDef.
    pub(crate) field: u32,
    /// Whether its signature says that it holds a reference.
    pub(crate) is_reference: bool,
    /// Its address, and its value if requested.
    pub(crate) place: Place,
}

/// What the copy described so far: its modules, its classes, and their names.
pub(crate) struct Described<'a> {
    pub(crate) names: &'a mut Names,
    pub(crate) classes: &'a [ClassFacts],
    pub(crate) by_id: &'a HashMap<u64, u32>,
    pub(crate) modules: &'a HashMap<u64, Option<u32>>,
}

/// Questions and answers of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    /// Whether the copy may read all field values, or only references.
    pub(crate) reads_values: bool,
    /// Modules still to read, by id and index; `None` before the first.
    modules: Option<Vec<(u64, u32)>>,
    /// Number of modules to read in all.
    module_count: usize,
    questions: Vec<Question>,
    words: Vec<u64>,
    /// Static fields of modules read ahead.
    ahead: HashMap<u32, Vec<StaticFields>>,
    /// Fields of types without methods, for questions by class.
    by_class: HashMap<(u32, u32), Vec<(u32, bool)>>,
    is_asked: bool,
    /// Number of fields not asked about for lack of space.
    unasked: u64,
    answers: Vec<StaticAnswer>,
    /// Number of fields of initialized classes that the runtime does not locate.
    unknown: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct Question {
    module: u32,
    type_token: u32,
    class: Option<u32>,
    fields: Vec<(u32, bool)>,
}

impl Statics {
    pub(crate) fn new(reads_values: bool) -> Statics {
        Statics { reads_values, ..Statics::default() }
    }

    /// Whether all questions were answered.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Before the questions are sent: the number of modules read for them, and of all.
    pub(crate) fn files(&self) -> Option<(usize, usize)> {
        let left = self.modules.as_ref().map_or(0, Vec::len);
        (!self.is_asked).then_some((self.module_count - left, self.module_count))
    }

    /// The located fields.
    pub(crate) fn answers(&self) -> &[StaticAnswer] {
        &self.answers
    }

    /// Notes on missing fields.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let counted = [
            (self.unasked, "were not asked about: there was no room"),
            (self.unknown, "are not known: the runtime does not say where they are"),
        ];
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} static fields {what}"))
    }

    /// Whether all fields were asked about and located.
    pub(crate) fn are_whole(&self) -> bool {
        self.has_ended && self.unasked == 0 && self.unknown == 0
    }

    /// Prepares the questions, one module a call. Sends them when all classes are known: after the walk. Returns whether there was anything
    /// to do.
    pub(crate) fn ask_on(&mut self, described: Described<'_>, memory: &SharedMemory, is_walked: bool) -> bool {
        if self.is_asked {
            return false;
        }
        let rest = self.modules.get_or_insert_with(|| {
            let known = described.modules.iter().filter_map(|(id, index)| Some((*id, (*index)?)));
            let mut known: Vec<(u64, u32)> = known.collect();
            // `pop` takes them from the end: in the order of their descriptions.
            known.sort_by_key(|(_, index)| Reverse(*index));
            self.module_count = known.len();
            known
        });
        match rest.pop() {
            Some((id, index)) => self.read_module(described.names, id, index),
            None if is_walked => {
                self.ask_about_classes(&described);
                memory.ask(&self.words);
                self.words = Vec::new();
                self.is_asked = true;
            }
            None => return false,
        }
        true
    }

    /// Reads the static fields of a module before they are needed.
    pub(crate) fn read_ahead(&mut self, module: u32, image: &ManagedImage) {
        self.ahead.insert(module, image.static_fields().collect());
    }

    fn read_module(&mut self, names: &mut Names, id: u64, module: u32) {
        let known = self.ahead.remove(&module);
        let Some(all) = known.or_else(|| Some(names.image(module)?.static_fields().collect())) else { return };
        for of in all {
            match of.method {
                Some(method) => {
                    let question = Question { module, type_token: of.type_token, class: None, fields: Vec::new() };
                    self.ask(question, Owner::OfMethod { module: id, method }, &of.fields);
                }
                None => _ = self.by_class.insert((module, of.type_token), of.fields),
            }
        }
    }

    /// Asks about types without methods, if they are among the classes.
    fn ask_about_classes(&mut self, described: &Described<'_>) {
        let ids: HashMap<u32, u64> = described.by_id.iter().map(|(id, class)| (*class, *id)).collect();
        for (class, facts) in (0..).zip(described.classes) {
            let ClassFacts::Plain { module, token, .. } = facts else { continue };
            let Some(Some(module)) = described.modules.get(module) else { continue };
            let Some(fields) = self.by_class.remove(&(*module, *token)) else { continue };
            let Some(id) = ids.get(&class) else { continue };
            let question = Question { module: *module, type_token: *token, class: Some(class), fields: Vec::new() };
            self.ask(question, Owner::Class(*id), &fields);
        }
    }

    fn ask(&mut self, mut asking: Question, owner: Owner, fields: &[(u32, bool)]) {
        let reads = |is_reference| self.reads_values || is_reference;
        let asked: Vec<Asked> =
            fields.iter().map(|(field, is_reference)| Asked { field: *field, reads: reads(*is_reference) }).collect();
        if self.words.len() + asked.len() + 2 > SharedMemory::room_for_questions() {
            self.unasked += asked.len() as u64;
            return;
        }
        self.words.extend(question(owner, &asked));
        asking.fields = fields.to_vec();
        self.questions.push(asking);
    }

    /// Handles a piece of the copy's answers.
    pub(crate) fn answer(&mut self, bytes: Foreign<&[u8]>) -> Result<(), Malformed> {
        match answer(bytes)? {
            Answer::End(questions) => self.has_ended = questions == self.questions.len() as u64,
            Answer::Fields { question, first, places } => {
                let question = usize::try_from(question).ok().and_then(|at| self.questions.get(at)).ok_or(Malformed)?;
                let first = usize::try_from(first).map_err(|_| Malformed)?;
                let fields = question.fields.get(first..).and_then(|rest| rest.get(..places.len())).ok_or(Malformed)?;
                if self.answers.len() + fields.len() > MOST_ANSWERS {
                    return Err(Malformed);
                }
                let Question { module, type_token, class, .. } = *question;
                for ((field, is_reference), place) in fields.iter().zip(places) {
                    let (field, is_reference) = (*field, *is_reference);
                    match place {
                        Ok(place) => {
                            self.answers.push(StaticAnswer { module, type_token, class, field, is_reference, place })
                        }
                        Err(NOT_INITIALIZED) => {}
                        Err(_) => self.unknown += 1,
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap_stream::written;

    fn asked() -> Statics {
        let mut statics = Statics::new(false);
        for type_token in [0x0200_0002, 0x0200_0003] {
            let question = Question { module: 1, type_token, class: None, fields: Vec::new() };
            let owner = Owner::OfMethod { module: 0x7f00, method: 0x0600_0001 };
            statics.ask(question, owner, &[(0x0400_0001, true), (0x0400_0002, false)]);
        }
        statics
    }

    #[test]
    fn answers_belong_to_the_fields_that_were_asked_about() {
        let mut statics = asked();
        assert_eq!(statics.answer((&written(&[1, 1, 1, 0, 0x9000, 0])).into()), Ok(()));
        let answered: Vec<_> = statics.answers().iter().map(|answer| (answer.type_token, answer.field)).collect();
        assert_eq!((answered, statics.has_ended()), (vec![(0x0200_0003, 0x0400_0002)], false));
        assert_eq!(statics.answer((&written(&[0, 2])).into()), Ok(()));
        assert!(statics.has_ended());
    }

    #[test]
    fn answers_to_what_was_not_asked_are_none() {
        for numbers in [&[1, 2, 0, 5][..], &[1, 0, 2, 5], &[1, 0, 0, 5, 5, 5], &[1, u64::MAX, 0], &[9]] {
            assert_eq!(asked().answer((&written(numbers)).into()), Err(Malformed), "{numbers:?}");
        }
        let mut statics = asked();
        assert_eq!(
            (statics.answer((&written(&[0, 1])).into()), statics.has_ended()),
            (Ok(()), false),
            "one was not read"
        );
    }

    #[test]
    fn questions_for_which_there_is_no_room_are_counted() {
        let mut statics = asked();
        let many = vec![(0x0400_0001, true); SharedMemory::room_for_questions()];
        let question = Question { module: 1, type_token: 0x0200_0004, class: None, fields: Vec::new() };
        statics.ask(question, Owner::Class(7), &many);
        let note = statics.notes().next().expect("something was not asked");
        assert!(note.starts_with(&format!("{} static fields were not asked about", many.len())), "{note}");
        assert_eq!(statics.questions.len(), 2);
    }
}

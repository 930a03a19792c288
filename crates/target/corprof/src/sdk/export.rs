//! The macro that exports `DllGetClassObject`.

use crate::Guid;

/// Parses a class id, with or without braces. Fails at compile time if the text is none.
#[doc(hidden)]
pub const fn class_id(text: &str) -> Guid {
    let bytes = text.as_bytes();
    let (mut at, mut number, mut digits) = (0, 0u128, 0);
    while at < bytes.len() {
        let digit = match bytes[at] {
            byte @ b'0'..=b'9' => Some(byte - b'0'),
            byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
            byte @ b'A'..=b'F' => Some(byte - b'A' + 10),
            b'-' | b'{' | b'}' => None,
            _ => panic!("a class id has hexadecimal digits, hyphens and braces only"),
        };
        if let Some(digit) = digit {
            number = number << 4 | digit as u128;
            digits += 1;
        }
        at += 1;
    }
    assert!(digits == 32, "a class id has 32 hexadecimal digits");
    Guid::from_u128(number)
}

/// Exports profilers from the library: each type under its class id, which the attach request or the environment names.
///
/// Use it once in a library with crate type `cdylib`. Write a type with ids with its lifetime:
/// ```
/// # use corprof::{sdk::*, *};
/// # struct Logger<'rt>(LiveSet<'rt, ModuleId>);
/// # impl<'rt> Profiler<'rt> for Logger<'rt> { fn events(&self) -> Events { AttachMask::MODULE_LOADS.into() } }
/// # struct Watcher;
/// # impl<'rt> Profiler<'rt> for Watcher { fn events(&self) -> Events { HighAttachMask::BASIC_GC.into() } }
/// export_profiler!(
///     Logger<'rt>, clsid = "{8A7E0C5B-3E52-4E0B-9A57-0C6A3E5D1F01}";
///     Watcher, clsid = "8A7E0C5B-3E52-4E0B-9A57-0C6A3E5D1F02"
/// );
/// ```
/// A profiler for one lifetime only could mix up the ids of two runtimes, and is refused:
/// ```compile_fail
/// # use corprof::{sdk::*, *};
/// struct Logger<'rt>(LiveSet<'rt, ModuleId>);
/// impl Profiler<'static> for Logger<'static> {
///     fn events(&self) -> Events { AttachMask::MODULE_LOADS.into() }
/// }
/// export_profiler!(Logger<'rt>, clsid = "{8A7E0C5B-3E52-4E0B-9A57-0C6A3E5D1F01}");
/// ```
#[macro_export]
macro_rules! export_profiler {
    ($($profiler:ident $(<$rt:lifetime>)?, clsid = $clsid:literal);+ $(;)?) => {
        const _: () = {
            fn of_every_runtime<'rt>(_: &'rt ()) {
                fn is_profiler<'rt, P: $crate::sdk::Profiler<'rt>>() {}
                $(is_profiler::<'rt, $crate::profiler_type!('rt, $profiler $(<$rt>)?)>();)+
            }

            fn make(class: &$crate::Guid) -> Option<*mut $crate::sys::IUnknown> {
                let _ = of_every_runtime;
                $({
                    const CLASS: $crate::Guid = $crate::sdk::class_id($clsid);
                    static PLACES: $crate::sdk::RuntimeSlots = $crate::sdk::RuntimeSlots::new();
                    if *class == CLASS {
                        // SAFETY: `of_every_runtime` compiles, so the type implements `Profiler<'rt>` for every `'rt`.
                        return unsafe {
                            $crate::sdk::create::<$crate::profiler_type!('static, $profiler $(<$rt>)?)>(&PLACES)
                        };
                    }
                })+
                None
            }

            /// Returns the class factory of a profiler; the runtime calls it.
            ///
            /// # Safety
            /// The pointers follow the COM protocol: two identifiers, and a place for an interface pointer.
            #[allow(non_snake_case, reason = "the name is the runtime's")]
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn DllGetClassObject(
                class: *const $crate::Guid,
                interface: *const $crate::Guid,
                object: *mut *mut ::core::ffi::c_void,
            ) -> i32 {
                // SAFETY: the runtime passes pointers that are null or valid, as `dll_get_class_object` requires.
                unsafe { $crate::dll_get_class_object(class, interface, object, make) }
            }
        };
    };
}

/// A profiler's type for one runtime.
#[doc(hidden)]
#[macro_export]
macro_rules! profiler_type {
    ($rt:lifetime, $profiler:ident) => { $profiler };
    ($rt:lifetime, $profiler:ident <$own:lifetime>) => { $profiler<$rt> };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_id_is_read_as_it_is_written() {
        let guid = class_id("{176FBED1-a55c-4796-98CA-A9DA0EF883E7}");
        assert_eq!(guid.to_string(), "176FBED1-A55C-4796-98CA-A9DA0EF883E7");
    }
}

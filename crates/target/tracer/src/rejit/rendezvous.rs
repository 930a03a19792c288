//! How a second library finds the inert one in the same process.
//!
//! The first one keeps a page whose name `/proc/self/maps` shows. It has the address of a function that takes a request. The second
//! library is loaded as a notification-only profiler, calls that function, and cancels its own activation.

use super::session;
use corprof::{Alive, Attached, HResult, Info, ProfilerCallback};
use remora_wire::method_trace::{HANDED_OVER, RENDEZVOUS_NAME, TraceConfig, rendezvous};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of the page.
const PAGE: usize = 4096;

/// How the function that takes a request is called: client data and their length. Returns 0, or an error number.
type Take = unsafe extern "C" fn(*const u8, usize) -> i32;

static IS_PUBLISHED: AtomicBool = AtomicBool::new(false);

/// Publishes the page, once.
///
/// # Errors
/// The system's error number.
pub(crate) fn publish() -> Result<(), i32> {
    if IS_PUBLISHED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let name = std::ffi::CString::new(RENDEZVOUS_NAME).map_err(|_| libc::EINVAL)?;
    // SAFETY: the name is live and ends with a zero.
    let descriptor = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) } as i32;
    if descriptor < 0 {
        return Err(libc::ENOMEM);
    }
    // SAFETY: a descriptor of this function; a new mapping at an address that the kernel chooses.
    let page = unsafe {
        libc::ftruncate(descriptor, PAGE as libc::off_t);
        let page =
            libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0);
        libc::close(descriptor);
        page
    };
    if page == libc::MAP_FAILED {
        return Err(libc::ENOMEM);
    }
    // SAFETY: a page of zeros, mapped for the life of the process. The words are only accessed by atomics.
    let words = unsafe { std::slice::from_raw_parts(page.cast::<AtomicU64>(), PAGE / 8) };
    words[rendezvous::TAKE].store(take as Take as usize as u64, Ordering::Relaxed);
    words[rendezvous::PROCESS].store(u64::from(std::process::id()), Ordering::Relaxed);
    words[0].store(rendezvous::MAGIC, Ordering::Release);
    Ok(())
}

/// Takes a request.
unsafe extern "C" fn take(data: *const u8, length: usize) -> i32 {
    let taken = std::panic::catch_unwind(|| {
        // SAFETY: the other library passes its client data, which are live for the call.
        let data = unsafe { std::slice::from_raw_parts(data, length) };
        let config = TraceConfig::decode(data).map_err(|_| libc::EINVAL)?;
        session::start(config)
    });
    match taken {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => libc::EINVAL,
    }
}

/// The function of the inert library in this process.
fn find() -> Option<Take> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let wanted = format!("/memfd:{RENDEZVOUS_NAME} ");
    let line = maps.lines().find(|line| format!("{line} ").contains(&wanted))?;
    let begin = usize::from_str_radix(line.split('-').next()?, 16).ok()?;
    // SAFETY: the mapping is in the map, is a page at least, and its maker never unmaps it.
    let words = unsafe { std::slice::from_raw_parts(begin as *const AtomicU64, PAGE / 8) };
    let is_whole = words[0].load(Ordering::Acquire) == rendezvous::MAGIC
        && words[rendezvous::PROCESS].load(Ordering::Relaxed) == u64::from(std::process::id());
    let address = words[rendezvous::TAKE].load(Ordering::Relaxed) as usize;
    // SAFETY: the magic names this very layout and function type, and the process id says that the library is in this process.
    (is_whole && address != 0).then(|| unsafe { std::mem::transmute::<usize, Take>(address) })
}

/// Hands its client data over, and cancels its own activation.
pub(crate) struct Messenger;

impl ProfilerCallback for Messenger {
    fn initialize_for_attach(&self, _: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        let take = find().ok_or(HResult::E_FAIL)?;
        // SAFETY: the data are live for the call.
        match unsafe { take(client_data.as_ptr(), client_data.len()) } {
            0 => Err(HResult(HANDED_OVER as i32)),
            _ => Err(HResult::E_FAIL),
        }
    }

    fn load_as_notification_only(&self) -> bool {
        true
    }
}

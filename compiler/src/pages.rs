//! Memory of large vectors in large pages, and the only unsafe call of the compiler.
//!
//! A large model touches hundreds of thousands of small pages, each at the price of a fault, and later of a search for its
//! address. A system that does not know large pages, or has none left, goes on as before.

/// A vector of fewer bytes stays in small pages: it would take more memory than it needs.
const LARGE: usize = 1 << 20;

/// Asks for large pages for a vector, for all it has room for. Call it again when it has grown: it may have moved.
pub fn prefer_large<T>(elements: &[T], capacity: usize) {
    if size_of_val(elements) >= LARGE {
        advise(elements.as_ptr().cast(), capacity * size_of::<T>());
    }
}

/// An empty vector, in large pages if it will have so many elements.
pub fn with_capacity<T>(n_elements: usize) -> Vec<T> {
    let vector: Vec<T> = Vec::with_capacity(n_elements);
    if n_elements * size_of::<T>() >= 4 * LARGE {
        advise(vector.as_ptr().cast(), vector.capacity() * size_of::<T>());
    }
    vector
}

/// The same for a text.
pub fn text_with_capacity(n_bytes: usize) -> String {
    String::from_utf8(with_capacity(n_bytes)).unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn advise(start: *const u8, n_bytes: usize) {
    let page = rustix::param::page_size();
    let before = start.addr() % page;
    let all = (before + n_bytes).next_multiple_of(page);
    let start = start.wrapping_sub(before).cast_mut().cast();
    #[expect(unsafe_code, reason = "advice about memory has no safe form")]
    // SAFETY: this advice changes neither what is in memory nor whether it can be used. Whatever else lies on the first
    // page and the last one only gets the advice, too. A system that does not know it says so, and goes on.
    let _ = unsafe { rustix::mm::madvise(start, all, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *const u8, _: usize) {}

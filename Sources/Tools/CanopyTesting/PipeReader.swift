public import Foundation

/// Reads the output of a child process until its end.
public enum PipeReader {
  /// Starts a thread that passes on the bytes of a pipe as they arrive, then an empty array at the end.
  ///
  /// `readabilityHandler` is unsafe beside other processes. A child that was started meanwhile may hold a copy of the
  /// descriptor. Then closing the descriptor leaves it registered with `epoll`, and Dispatch reads the memory of a
  /// source that it has freed.
  public static func start(
    _ pipe: Pipe, receive: @escaping @Sendable ([UInt8]) -> Void
  ) {
    Thread.detachNewThread {
      var buffer = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = read(pipe.fileHandleForReading.fileDescriptor, &buffer, buffer.count)
        if count < 0 && errno == EINTR { continue }
        guard count > 0 else { return receive([]) }
        receive(Array(buffer[..<count]))
      }
    }
  }
}

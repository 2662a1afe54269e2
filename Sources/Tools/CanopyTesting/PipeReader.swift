public import Foundation

/// Reads the output of a child process until its end.
public enum PipeReader {
  /// Starts a thread that hands on the bytes of a pipe as they come, then an empty array at the end.
  ///
  /// It is a thread and not `readabilityHandler`, because that is unsafe beside other processes: a child that was
  /// started meanwhile may hold a copy of the descriptor, so that closing it leaves it registered with `epoll`, and
  /// Dispatch then reads the memory of a source that is gone.
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

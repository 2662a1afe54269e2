extension Engine {
  /// Waits until the engine's thread has carried out the requests that were accepted before, or has refused them because
  /// the journal fails. Returns at once when the engine is stopping.
  ///
  /// It does not return while the thread is stuck, for instance in an append that does not end.
  public func answer() async {
    await withCheckedContinuation { continuation in
      let isAccepted = enqueueBarrier(named: "watchdog") { continuation.resume() }
      if !isAccepted { continuation.resume() }
    }
  }
}

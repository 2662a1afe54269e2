import CanopyBackup
import CanopyEngine
import CanopyEvents
import CanopyMetrics
import CanopySession
import CanopySocial
import Foundation

extension MetricsRegistry {
  /// Adds the numbers that the parts of a server know themselves. They are read when the text is written.
  func collect(from operations: Operations, line: ConnectionGate, http: ConnectionGate) {
    collect { text in
      for (port, gate) in [("line", line), ("http", http)] {
        text.add(
          .gauge, "canopy_connections", "Open connections by port.", [("port", port)],
          Double(gate.count))
      }
      text.add(
        .counter, "canopy_connections_displaced_total",
        "Idle connections that were ended for newcomers.", [], Double(line.endedCount))
      func gauge(_ name: String, _ help: String, _ value: Int) {
        text.add(.gauge, name, help, [], Double(value))
      }
      var (listeners, views) = operations.engine.listenerCounts
      for engine in operations.namespaces.engines {
        let counts = engine.listenerCounts
        listeners += counts.0
        views += counts.1
      }
      gauge("canopy_listeners", "Listeners at the engine.", listeners)
      gauge("canopy_views", "Different locations and queries with listeners.", views)
      gauge(
        "canopy_namespaces_open", "Open namespaces, besides the default one.",
        operations.namespaces.openCount)
      gauge("canopy_logins", "Logins that connections hold.", operations.sessions.count)
      gauge(
        "canopy_connection_bytes", "Bytes that connections make the server hold.",
        operations.memory.used)
      gauge(
        "canopy_sequence", "The number of the last commit of the default namespace.",
        Int(operations.engine.snapshot.sequence))
      if let tree = operations.tree {
        gauge("canopy_tree_bytes", "The memory of all data, estimated.", tree.bytes)
      }
      let space = operations.freeSpace
      if let bytes = space.bytes {
        gauge("canopy_free_bytes", "Free bytes of the disk with the data.", Int(clamping: bytes))
      }
      let storage = [
        ("storage", operations.storage?.refused ?? 0), ("space", space.refused),
        ("tree", operations.tree?.refused ?? 0),
      ]
      for (reason, count) in (operations.quotas?.refused ?? []) + storage {
        text.add(
          .counter, "canopy_writes_refused_total", "Writes refused by a quota, by reason.",
          [("reason", reason)], Double(count))
      }
      if let bytes = MetricsRegistry.residentBytes {
        gauge("process_resident_memory_bytes", "The memory of the process.", bytes)
      }
    }
  }

  /// Adds the numbers of the backups.
  func collect(from backups: Backups) {
    collect { text in
      let counts = backups.counts
      text.add(
        .counter, "canopy_backups_total", "Backups that this process has made.", [],
        Double(counts.made))
      text.add(
        .counter, "canopy_backup_failures_total", "Backups that failed.", [],
        Double(counts.failed))
      text.add(
        .counter, "canopy_backup_space_failures_total",
        "Backups that failed because too little space would have stayed free.", [],
        Double(counts.lowOnSpace))
      func gauge(_ name: String, _ help: String, _ value: Double) {
        text.add(.gauge, name, help, [], value)
      }
      gauge(
        "canopy_backup_progress", "The part of the present backup that is done, from 0 to 1.",
        counts.progress.map { Double($0.bytes) / Double(max(1, $0.bytesMax)) } ?? 0)
      if let duration = counts.lastDuration {
        gauge(
          "canopy_backup_last_seconds", "The duration of the last backup.",
          duration / .seconds(1))
      }
      guard let last = try? backups.newest() else { return }
      gauge(
        "canopy_backup_last_timestamp_seconds",
        "The time at which the newest stored backup up to now began, in seconds since 1970.",
        Double(last.time / 1_000))
      gauge(
        "canopy_backup_last_bytes", "The bytes of the newest stored backup.", Double(last.bytes))
    }
  }

  /// Adds the numbers of the scrub.
  func collect(from scrubber: Scrubber) {
    collect { text in
      let counts = scrubber.counts
      text.add(
        .counter, "canopy_scrub_rows_total", "Rows that the scrub has checked.", [],
        Double(counts.rows))
      text.add(
        .counter, "canopy_scrub_bytes_total", "Bytes of these rows.", [], Double(counts.bytes))
      text.add(
        .counter, "canopy_scrub_passes_total", "Complete passes of the scrub.", [],
        Double(counts.passes))
      text.add(
        .gauge, "canopy_scrub_problems",
        "Problems that the last complete pass or the present one has found.", [],
        Double(max(counts.problems, counts.lastProblems)))
      text.add(
        .gauge, "canopy_scrub_unread_namespaces",
        "Namespaces that the last complete pass could not read, of an older version.", [],
        Double(counts.lastOlder))
      guard let end = counts.lastEnd else { return }
      text.add(
        .gauge, "canopy_scrub_last_timestamp_seconds",
        "The end of the last complete pass, in seconds since 1970.", [], Double(end / 1_000))
    }
  }

  /// The memory that the process occupies; nil if the system does not report it.
  private static var residentBytes: Int? {
    guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else {
      return nil
    }
    let fields = text.split(separator: " ")
    guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
    return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
  }
}

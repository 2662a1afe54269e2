import CanopyTesting
import Synchronization
import Testing

@testable import CanopyAccounts

@Suite struct AdministratorPassesTests {
  private let clock = ManualClock()
  private let passes: AdministratorPasses

  init() {
    let random = SeededBytes()
    passes = AdministratorPasses(
      environment: AccountEnvironment(now: { [clock] in clock.now }, random: { random($0) }))
  }

  @Test func `a pass is good for one use, and gives a token that is good until it expires`() throws
  {
    let pass = passes.make()
    #expect(pass.expires == clock.now + AdministratorPasses.passMilliseconds)
    let login = try #require(passes.redeem(pass.token))
    #expect(login.token != pass.token && login.token.utf8.count == 43)
    #expect(passes.redeem(pass.token) == nil)
    #expect(passes.redeem(login.token) == login)
    clock.advance(AdministratorPasses.loginMilliseconds - 1)
    #expect(passes.redeem(login.token) == login)
    clock.advance(1)
    #expect(passes.redeem(login.token) == nil)
  }

  @Test func `a pass expires after five minutes`() {
    let (first, second) = (passes.make(), passes.make())
    clock.advance(AdministratorPasses.passMilliseconds - 1)
    #expect(passes.redeem(first.token) != nil)
    clock.advance(1)
    #expect(passes.redeem(second.token) == nil)
    // An expired pass is used up, even if the clock goes back.
    clock.advance(-1_000)
    #expect(passes.redeem(second.token) == nil)
  }

  @Test func `an ended pass or token is invalid`() throws {
    let (first, second) = (passes.make(), passes.make())
    #expect(passes.end(first.token) && !passes.end(first.token))
    #expect(passes.redeem(first.token) == nil)
    let login = try #require(passes.redeem(second.token))
    #expect(passes.end(login.token))
    #expect(passes.redeem(login.token) == nil)
  }

  @Test func `other texts are neither passes nor tokens`() {
    let pass = passes.make()
    for text in [
      "", "x", pass.token + "A", String(pass.token.dropLast()), "é", passes.make().token + "=",
    ] {
      #expect(passes.redeem(text) == nil && !passes.end(text), "\(text)")
    }
    #expect(passes.redeem(pass.token) != nil)
  }

  @Test func `the oldest pass gives way to one more than the bound`() {
    let made = (0...AdministratorPasses.countMax).map { _ in passes.make() }
    #expect(passes.redeem(made[0].token) == nil)
    #expect(passes.redeem(made[1].token) != nil)
  }

  @Test func `a login ends for all who observe it, once, when its token is revoked`() throws {
    let token = try #require(passes.redeem(passes.make().token)).token
    let login = try #require(passes.login(of: token))
    let ends = Mutex<[String]>([])
    _ = login.observe { ends.withLock { $0.append("a") } }
    let removed = login.observe { ends.withLock { $0.append("b") } }
    login.removeObserver(removed)
    #expect(login.isValid(at: login.expires - 1) && !login.isValid(at: login.expires))
    #expect(passes.end(token) && !passes.end(token))
    #expect(login.isRevoked && !login.isValid(at: clock.now))
    #expect(passes.login(of: token) == nil)
    _ = login.observe { ends.withLock { $0.append("late") } }
    #expect(ends.withLock { $0 } == ["a", "late"])
  }

  @Test func `the oldest login ends when there is one more than the bound`() throws {
    let logins = try (0...AdministratorPasses.countMax).map { _ in
      let grant = try #require(passes.redeem(passes.make().token))
      return try #require(passes.login(of: grant.token))
    }
    #expect(logins.map(\.isRevoked) == [true] + logins.dropFirst().map { _ in false })
  }

  @Test func `a description has no token`() {
    let pass = passes.make()
    for text in ["\(pass)", String(reflecting: pass), String(describing: [pass])] {
      #expect(!text.contains(pass.token))
    }
    #expect(Mirror(reflecting: pass).children.isEmpty)
  }
}

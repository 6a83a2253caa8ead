// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}

/**
 * The cases of Spark's `ExternalShuffleIntegrationSuite`, each at Spark's service and at the
 * daemon: the blocks that are there are the bytes that were written, and the answers are alike.
 */
@Tag("seldom")
final class ServiceCasesSuite {
  private val register =
    List(Register(0, 0, -1, pushes = false), Register(0, 1, -1, pushes = false))
  private val written = List(
    WriteOutput(0, 0, 0, 0, List(10, 20, 30)),
    WriteOutput(0, 0, 1, 0, List(7, 0, 9)),
    WriteOutput(0, 1, 1, 0, List(5000, 1)),
    WriteRdd(0, 0, 1, 0, 100),
    WriteRdd(0, 0, 1, 1, 0))
  private var rounds: Rounds = _

  @BeforeEach def start(): Unit = rounds = new Rounds
  @AfterEach def stop(): Unit = rounds.close()

  @Test def `one block and three blocks of an output are served as they were written`(): Unit =
    alike(
      fetch(Wanted(0, List(0))),
      fetch(Wanted(0, List(0, 1, 2))),
      open(OutputBlock(0, 0, 0), OutputBlock(0, 0, 1), OutputBlock(0, 0, 2)),
      FetchByClient(0, 0, List(OutputBlock(0, 0, 0), OutputBlock(0, 0, 2))))

  @Test def `an executor with a shuffle manager of its own is registered`(): Unit = alike(
    Register(0, 0, -1, pushes = false, manager = "org.example.CustomShuffleManager"),
    fetch(Wanted(0, List(0, 1))))

  @Test def `a name that is no block's is refused`(): Unit =
    alike(open(StrangeName("rdd_1_0_0")), open(StrangeName("broadcast_1")))

  @Test def `a block that does not exist is refused`(): Unit = alike(
    fetch(Wanted(9, List(0))),
    fetch(Wanted(0, List(3))),
    FetchByClient(0, 0, List(OutputBlock(0, 9, 0))))

  @Test def `a block of another executor is refused`(): Unit =
    alike(Fetch(0, 1, 0, List(Wanted(0, List(0)))), FetchByClient(0, 1, List(OutputBlock(0, 0, 1))))

  @Test def `an executor that is not registered is refused`(): Unit =
    alike(Fetch(0, 2, 0, List(Wanted(0, List(0)))), FetchByClient(0, 2, List(OutputBlock(0, 0, 1))))

  @Test def `rdd blocks are served, also empty ones, and refused after they are removed`(): Unit =
    alike(
      open(RddBlock(1, 0), RddBlock(1, 1)),
      open(RddBlock(2, 2)),
      RemoveRdd(0, 0, 1, 0),
      RemoveRdd(0, 0, 1, 0),
      open(RddBlock(1, 0)),
      RemoveRdd(0, 2, 1, 0))

  @Test def `a map output is refused after it is removed`(): Unit =
    alike(RemoveOutput(0, 0, 0, 0), fetch(Wanted(0, List(0))), RemoveOutput(0, 0, 0, 0))

  @Test def `nothing of an application that has ended is served`(): Unit = alike(
    fetch(Wanted(0, List(0))),
    End(0),
    LocalDirs(0, List("0")),
    fetch(Wanted(0, List(0))),
    Diagnose(0, 0, 0, 0, 0, 1, "ADLER32"))

  private def fetch(wanted: Wanted): Operation = Fetch(0, 0, 0, List(wanted))
  private def open(blocks: BlockName*): Operation = Open(0, 0, blocks.toList)

  private def alike(operations: Operation*): Unit = {
    rounds.run(register ::: written ::: operations.toList)
    ()
  }
}

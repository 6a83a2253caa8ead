// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.engine;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.SplittableRandom;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The native side of an engine, as far as a push sees it. It pushes from threads of its own, in any
 * order, and writes over its memory as soon as a call returns. An exception of the push comes out
 * as one of its own.
 */
public final class FakeNative {
  private static final Frame END = new Frame(0, null);

  private final FramePush push;
  private final BlockingQueue<Frame> frames = new ArrayBlockingQueue<>(4);
  private final AtomicReference<Throwable> failure = new AtomicReference<>();

  private FakeNative(FramePush push) {
    this.push = push;
  }

  /** A frame for a partition. */
  public static final class Frame {
    private final int partition;
    private final byte[] bytes;

    public Frame(int partition, byte[] bytes) {
      this.partition = partition;
      this.bytes = bytes;
    }
  }

  /** An exception as JNI makes it: without the one that was thrown first. */
  public static final class NativeException extends RuntimeException {
    NativeException(Throwable cause) {
      super("native code failed: " + cause);
    }
  }

  /** Pushes all frames. No thread is left when it returns or throws. */
  public static void pushAll(FramePush push, Iterator<Frame> all, int threads, long seed)
      throws InterruptedException {
    new FakeNative(push).run(all, threads, seed);
  }

  /** Calls it from a thread of native code. */
  public static <T> T onOwnThread(Callable<T> read) throws InterruptedException {
    FutureTask<T> task = new FutureTask<>(read);
    Thread thread = new Thread(task, "fake-native-reader");
    thread.setDaemon(true);
    thread.start();
    try {
      return task.get();
    } catch (ExecutionException failed) {
      throw new NativeException(failed.getCause());
    }
  }

  private void run(Iterator<Frame> all, int threads, long seed) throws InterruptedException {
    Thread[] pushing = new Thread[threads];
    for (int i = 0; i < threads; i++) {
      long own = seed + i;
      pushing[i] = new Thread(() -> pushOwn(new SplittableRandom(own)), "fake-native-" + i);
      pushing[i].setDaemon(true);
      pushing[i].start();
    }
    try {
      while (all.hasNext()) {
        give(all.next());
      }
    } finally {
      for (int i = 0; i < threads; i++) {
        give(END);
      }
      for (Thread thread : pushing) {
        thread.join();
      }
    }
    if (failure.get() != null) {
      throw new NativeException(failure.get());
    }
  }

  private void give(Frame frame) throws InterruptedException {
    boolean isGiven = false;
    while (!isGiven && failure.get() == null) {
      isGiven = frames.offer(frame, 10, TimeUnit.MILLISECONDS);
    }
    if (!isGiven && frame != END) {
      throw new NativeException(failure.get());
    }
  }

  private void pushOwn(SplittableRandom random) {
    byte[] array = new byte[64];
    ByteBuffer direct = ByteBuffer.allocateDirect(64);
    try {
      Frame frame = poll();
      while (frame != END && failure.get() == null) {
        int length = frame.bytes.length;
        if (array.length < length + 8) {
          array = new byte[length + 8];
          direct = ByteBuffer.allocateDirect(array.length);
        }
        if (random.nextInt(4) == 0) {
          push.push(frame.partition, array, 0, 0);
        }
        if (random.nextInt(3) == 0) {
          direct.clear();
          direct.put(frame.bytes).flip();
          push.push(frame.partition, direct);
          direct.clear();
          direct.put(new byte[length]);
        } else {
          int offset = random.nextInt(8);
          try (FrameReservation reservation = push.reserve(length)) {
            System.arraycopy(frame.bytes, 0, array, offset, length);
            push.push(frame.partition, array, offset, length);
          }
          Arrays.fill(array, (byte) 0xee);
        }
        frame = poll();
      }
    } catch (Throwable thrown) {
      // Failures of the push and of the JVM: each ends the native code as a whole.
      failure.compareAndSet(null, thrown);
    }
  }

  private Frame poll() throws InterruptedException {
    Frame frame = null;
    while (frame == null && failure.get() == null) {
      frame = frames.poll(10, TimeUnit.MILLISECONDS);
    }
    return frame == null ? END : frame;
  }
}

// Has threads that never run again: the load that a recording of waiting threads should hardly notice.
//
// parked [THREADS]
// They wait for a lock, an event, a semaphore and a sleep in turns. `threads` answers how many there are.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class Parked
{
    static readonly object gate = new object();
    static readonly ManualResetEvent handle = new ManualResetEvent(false);
    static readonly SemaphoreSlim semaphore = new SemaphoreSlim(0);
    static readonly ThreadStart[] waits = { ForTheLock, ForTheHandle, ForTheSemaphore, ForTheEnd };
    static CountdownEvent started;

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 200;
        started = new CountdownEvent(threads);
        Monitor.Enter(gate);
        for (int i = 0; i < threads; i++)
            new Thread(waits[i % waits.Length], 256 * 1024) { IsBackground = true, Name = "parked " + i }.Start();
        started.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "threads" ? threads.ToString() : "unknown");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ForTheLock()
    {
        started.Signal();
        lock (gate)
            throw new InvalidOperationException("the gate was opened");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ForTheHandle()
    {
        started.Signal();
        handle.WaitOne();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ForTheSemaphore()
    {
        started.Signal();
        semaphore.Wait();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ForTheEnd()
    {
        started.Signal();
        Thread.Sleep(Timeout.Infinite);
    }
}

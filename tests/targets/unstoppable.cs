// A program whose collections do not come, or must not come.
//
// unstoppable FILE
// FILE is a page that the test shares. `run` starts a thread that never lets itself be stopped as long as the file's first byte is 0, and
// answers the kernel's number of another that works all the time and can be stopped. `count` answers its operations.
// `no collections` begins a region without any, and answers `begun`; `end` ends it, and answers `ended` or what the runtime says against it.
using System;
using System.IO;
using System.IO.MemoryMappedFiles;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static unsafe class Unstoppable
{
    static byte* shared;
    static long operations;
    static volatile int worker;
    static readonly ManualResetEventSlim begun = new ManualResetEventSlim();

    [DllImport("libc")]
    static extern int pthread_sigmask(int how, byte* set, IntPtr old);

    [DllImport("libc")]
    static extern int gettid();

    static void Main(string[] arguments)
    {
        MemoryMappedViewAccessor view = MemoryMappedFile.CreateFromFile(arguments[0], FileMode.Open).CreateViewAccessor();
        view.SafeMemoryMappedViewHandle.AcquirePointer(ref shared);
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string line)
    {
        switch (line)
        {
            case "run": return Run();
            case "count": return Interlocked.Read(ref operations).ToString();
            case "no collections": return GC.TryStartNoGCRegion(1 << 20) ? "begun" : "refused";
            case "end": return End();
            default: return "unknown";
        }
    }

    static string Run()
    {
        new Thread(Work) { IsBackground = true, Name = "worker" }.Start();
        begun.Wait();
        begun.Reset();
        new Thread(Resist) { IsBackground = true, Name = "resister" }.Start();
        begun.Wait();
        return worker.ToString();
    }

    static string End()
    {
        try
        {
            GC.EndNoGCRegion();
            return "ended";
        }
        catch (InvalidOperationException exception)
        {
            return exception.Message;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Work()
    {
        worker = gettid();
        begun.Set();
        while (true)
            operations++;
    }

    /// The runtime stops a thread that runs managed code by a signal, which is blocked here. What is compiled at once is not left for a
    /// better version in between either.
    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void Resist()
    {
        const int Block = 0, Words = 128;
        byte* every = stackalloc byte[Words];
        for (int i = 0; i < Words; i++)
            every[i] = 0xff;
        pthread_sigmask(Block, every, IntPtr.Zero);
        begun.Set();
        Spin(shared);
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void Spin(byte* until)
    {
        while (Volatile.Read(ref *until) == 0)
            ;
    }
}

// Uses signals itself, as an application may: SIGPROF and real-time signals, with handlers, timers and a mask of its own.
//
// signals PATH_OF_LIBSIGNALS [REALTIME_SIGNALS]
// It takes so many of the lowest real-time signals; of the highest, if the number is negative.
// `profs` and `realtime` answer how often each was handled; `check` answers `unchanged`, or what is not as it was set up; `count` answers the operations of a busy thread.
using System;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

static class Signals
{
    static long operations;

    [DllImport("signals")]
    static extern int signals_set_up(int realtime);

    [DllImport("signals")]
    static extern long signals_handled(int realtime);

    [DllImport("signals")]
    static extern int signals_check(byte[] difference, int length);

    static void Main(string[] arguments)
    {
        string path = arguments[0];
        NativeLibrary.SetDllImportResolver(typeof(Signals).Assembly, (name, assembly, search) =>
            name == "signals" ? NativeLibrary.Load(path) : IntPtr.Zero);
        int realtime = arguments.Length > 1 ? int.Parse(arguments[1]) : 4;
        // The runtime handles SIGINT and others from the first use of the console on: that must not look like a change made later.
        _ = Console.In;
        if (signals_set_up(realtime) != 0)
            throw new InvalidOperationException("cannot set up the signals");
        new Thread(Work) { IsBackground = true, Name = "busy" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref operations).ToString();
            case "profs": return signals_handled(0).ToString();
            case "realtime": return signals_handled(1).ToString();
            case "check":
                var difference = new byte[512];
                int length = signals_check(difference, difference.Length);
                return length == 0 ? "unchanged" : Encoding.UTF8.GetString(difference, 0, length);
            default: return "unknown";
        }
    }

    static void Work()
    {
        while (true)
        {
            uint state = 1;
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
            if (state != 0)
                Interlocked.Increment(ref operations);
        }
    }
}

// Loads one plug-in after the other into collectible contexts, keeps objects of its types, and lets it go when it is told to.
//
// reloads
// `load` loads plugin.dll from its file; `make COUNT` has it make so many objects, which are kept; `unload` lets go of them and of the plug-in
// and collects until it is gone; `collect GENERATION` collects. Each is answered with `done`.
using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;

static class Reloads
{
    static AssemblyLoadContext context;
    static Func<object> make;
    static readonly List<object> kept = new List<object>();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Load()
    {
        context = new AssemblyLoadContext("plug-in", isCollectible: true);
        Assembly assembly = context.LoadFromAssemblyPath(Path.Combine(AppContext.BaseDirectory, "plugin.dll"));
        make = (Func<object>)assembly.GetType("Plugin.Maker").GetMethod("Make").CreateDelegate(typeof(Func<object>));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Make(int count)
    {
        for (; count > 0; count--)
            kept.Add(make());
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static WeakReference LetGo()
    {
        kept.Clear();
        make = null;
        var gone = new WeakReference(context);
        context.Unload();
        context = null;
        return gone;
    }

    static void Unload()
    {
        for (WeakReference gone = LetGo(); gone.IsAlive;)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    static void Main()
    {
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            string[] words = line.Split(' ');
            switch (words[0])
            {
                case "load": Load(); break;
                case "make": Make(int.Parse(words[1])); break;
                case "unload": Unload(); break;
                case "collect": GC.Collect(int.Parse(words[1])); break;
            }
            Console.WriteLine("done");
        }
    }
}

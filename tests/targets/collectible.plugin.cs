// The plug-in of `collectible`: burns processor time, so many steps of ten thousand multiplications.
using System.Runtime.CompilerServices;

namespace Plugin
{
    public static class Worker
    {
        static uint state;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Burn(int steps)
        {
            for (int i = 0; i < steps; i++)
                Step<string>();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Step<T>()
        {
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
        }
    }
}
